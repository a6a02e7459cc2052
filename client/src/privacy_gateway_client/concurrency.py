"""Where the two clients differ: how they wait, use threads, run operations side by side and send bodies in pieces.

The code in `asynchronous/` uses the names that begin with `async_` or `Async`. `make client` writes `generated/` from
it, which uses the names without this prefix. Each pair promises the same.

asyncio is imported inside the functions that need it: it takes a fifth of the time of the whole import of this package,
and the blocking client does not use it.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from privacy_gateway_client.wire import Content

P = ParamSpec("P")
T = TypeVar("T")
AsyncFunction = Callable[P, Awaitable[T]]
Function = Callable[P, T]


async def async_sleep(seconds: float) -> None:
    """Wait, and let the event loop run meanwhile."""
    import asyncio

    await asyncio.sleep(seconds)


def sleep(seconds: float) -> None:
    """Wait, which blocks the thread of the caller."""
    time.sleep(seconds)


async def async_in_thread(function: Callable[[], T]) -> T:
    """Call a function that blocks in a thread of its own, so that it does not stop the event loop."""
    import asyncio

    return await asyncio.to_thread(function)


def in_thread(function: Callable[[], T]) -> T:
    """Call a function that blocks in the thread of the caller, which waits in any case."""
    return function()


def async_body(content: Content) -> bytes | AsyncIterator[bytes] | None:
    """The body of one attempt, as `httpx.AsyncClient` takes it."""
    if not callable(content):
        return content
    opened = content()

    async def pieces() -> AsyncIterator[bytes]:
        for piece in opened:
            yield piece

    return pieces()


def body(content: Content) -> bytes | Iterable[bytes] | None:
    """The body of one attempt, as `httpx.Client` takes it."""
    return content() if callable(content) else content


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How one of several operations ended: its value or its error. Both are None if it was not started."""

    value: T | None = None
    error: Exception | None = None


async def async_gather(operations: Sequence[AsyncFunction[[], T]], *, concurrency: int) -> list[Outcome[T]]:
    """Run operations as tasks, at most `concurrency` at a time. After the first error no further one is started.

    The outcomes have the order of the operations. An operation that fails raises nothing. Each task has a copy of the
    caller's context, in which the caller's budget caps are. A caller that is cancelled cancels the tasks.
    """
    import asyncio

    free = asyncio.Semaphore(concurrency)
    stopped = False

    async def one(operation: AsyncFunction[[], T]) -> Outcome[T]:
        nonlocal stopped
        async with free:
            if stopped:
                return Outcome()
            try:
                return Outcome(await operation())
            except Exception as error:
                stopped = True
                return Outcome(error=error)

    tasks = [asyncio.ensure_future(one(operation)) for operation in operations]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def gather(operations: Sequence[Function[[], T]], *, concurrency: int) -> list[Outcome[T]]:
    """Run operations in threads, at most `concurrency` at a time. After the first error no further one is started.

    The outcomes have the order of the operations. An operation that fails raises nothing. Each thread has a copy of the
    caller's context, in which the caller's budget caps are. A caller that is interrupted waits for what has started.
    """
    stopped = threading.Event()

    def one(operation: Function[[], T]) -> Outcome[T]:
        if stopped.is_set():
            return Outcome()
        try:
            return Outcome(operation())
        except Exception as error:
            stopped.set()
            return Outcome(error=error)

    if len(operations) == 1 or concurrency == 1:
        return [one(operation) for operation in operations]
    with ThreadPoolExecutor(concurrency, thread_name_prefix="privacy-gateway-client") as pool:
        waiting = [pool.submit(contextvars.copy_context().run, one, operation) for operation in operations]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            stopped.set()
            raise
