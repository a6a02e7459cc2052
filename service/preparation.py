"""Work on large requests outside the event loop, one at a time, with turns for tenants.

Parsing a body, segmenting a text, turning lists of numbers into an array and writing a large answer take up to hundreds
of milliseconds of Python. On the event loop they would stop every other request. In several threads they would compete
with it for the interpreter, so one thread does them all. After each it rests for as long as it has worked, so that the
event loop has at least half of the time.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from gpu_workers.engine.fairness import Turns

P = ParamSpec("P")
Result = TypeVar("Result")

IN_LOOP_SIZE_MAX = 64 * 1024  # about a millisecond


class Preparation:
    """Runs functions of one thread. Used on the event loop only, without locks."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="preparation")
        self._turns = Turns(1)

    def close(self) -> None:
        """Finish the running function. All others are cancelled."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(
        self, tenant: str, size: int, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Return the result of `function`. `size`: the characters, bytes or numbers that it reads.

        A small one is called at once. The large ones of all tenants take turns, by their sizes. The function must not
        use anything that belongs to the event loop.

        Raises the error of the function, and RuntimeError if there is no thread left. That is no `NotStarted`: the
        function may read what was drawn.
        """
        if size <= IN_LOOP_SIZE_MAX:
            return function(*args, **kwargs)
        ticket = await self._turns.wait(tenant, size)
        loop = asyncio.get_running_loop()
        try:
            running = self._thread.submit(function, *args, **kwargs)
        except RuntimeError:  # no thread left, or the gateway is stopping
            ticket.close()
            raise
        started = loop.time()

        def rest() -> None:
            loop.call_later(loop.time() - started, ticket.close)

        # The thread is busy until the function has returned, whether or not the caller still waits.
        running.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(rest))
        try:
            return await asyncio.wrap_future(running)
        finally:
            del running  # its error refers to this frame: together they would keep the request until a collection
