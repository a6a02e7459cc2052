"""The asynchronous client, and its driver, which carries out the effects of an operation with `httpx.AsyncClient`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx
from typing_extensions import Self, Unpack

from privacy_gateway_client.blocking_client import Source, built, lost_by, too_long, whole
from privacy_gateway_client.connection import Settings, http_options
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Emit, Flow, Incoming, Op, Outcome, Outgoing
from privacy_gateway_client.errors import ConnectionLost
from privacy_gateway_client.spaces import Client

T = TypeVar("T")


class AsyncDriver:
    """Runs operations on the running event loop, and those of a `gather` as tasks."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self, operation: Op[T]) -> T:
        """The result of an operation that emits nothing."""
        results: list[T] = []
        async for _ in self._steps(operation, results):
            pass
        return results[0]

    async def iterate(self, operation: Op[Any]) -> AsyncIterator[Any]:
        """The values that the operation emits."""
        steps = self._steps(operation, [])
        try:
            async for value in steps:
                yield value
        finally:
            await steps.aclose()

    async def _steps(self, operation: Op[T], results: list[T]) -> AsyncGenerator[Any, None]:
        answer: Any = None
        failure: BaseException | None = None
        flows: list[Flow] = []
        try:
            while True:
                try:
                    effect = operation.send(answer) if failure is None else operation.throw(failure)
                except StopIteration as end:
                    results.append(end.value)
                    return
                answer = failure = None
                if isinstance(effect, Emit):
                    yield effect.value
                    continue
                try:
                    answer = await effect(self)
                except Exception as error:
                    failure = error
                if isinstance(answer, Flow):
                    flows.append(answer)
        finally:
            operation.close()
            for flow in flows:  # also those that a caller's loop has left before their end
                await flow.source.answer.aclose()

    async def send(self, request: Outgoing) -> Incoming:
        sent = _building(lambda: built(self._http, request, _async_body(request)))
        return whole(await _exchanged(self._http.send(sent)))

    async def open(self, request: Outgoing) -> Flow:
        sent = _building(lambda: built(self._http, request, _async_body(request)))
        return _async_flow(await _exchanged(self._http.send(sent, stream=True)))

    async def piece(self, flow: Flow) -> Any:
        return await _exchanged(anext(flow.source.pieces(), None))

    async def line(self, flow: Flow) -> Any:
        return await _exchanged(anext(flow.source.lines(), None))

    async def close_flow(self, flow: Flow) -> None:
        await flow.source.answer.aclose()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def gather(self, operations: Sequence[Op[Any]], concurrency: int) -> list[Outcome]:
        free = asyncio.Semaphore(concurrency)
        stopped = False

        async def one(operation: Op[Any]) -> Outcome:
            nonlocal stopped
            async with free:
                if stopped:
                    operation.close()
                    return Outcome(started=False)
                try:
                    return Outcome(await self.run(operation))
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


def _async_body(request: Outgoing) -> Any:
    if not callable(request.content):
        return request.content
    opened = request.content()

    async def pieces() -> AsyncIterator[bytes]:
        for piece in opened:
            yield piece

    return pieces()


def _async_flow(answer: httpx.Response) -> Flow:
    return Flow(answer.status_code, answer.headers, Source(answer, answer.aiter_bytes, answer.aiter_lines))


def _building(build: Callable[[], httpx.Request]) -> httpx.Request:
    try:
        return build()
    except httpx.InvalidURL:
        raise too_long() from None


async def _exchanged(act: Any) -> Any:
    lost: ConnectionLost | None = None
    try:
        return await act
    except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
        lost = lost_by(error)
    raise lost


class AsyncGateway(Client[AsyncDriver]):
    """An asynchronous client of the gateway at `base_url`, for one API key; one event loop uses it.

    settings: see `Settings`. Close it, or use it by `async with`.
    """

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        transport = settings.get("async_transport")
        http = httpx.AsyncClient(transport=transport, **http_options(base_url, api_key, settings))
        super().__init__(Core.of(base_url, settings), AsyncDriver(http))

    async def close(self) -> None:
        await self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
