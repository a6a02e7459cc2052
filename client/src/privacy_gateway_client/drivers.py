"""The two drivers: they carry out the effects of an operation with `httpx.Client` or `httpx.AsyncClient`."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx

from privacy_gateway_client.effects import (
    Call,
    Close,
    Effect,
    Emit,
    Flow,
    Gather,
    Incoming,
    Line,
    Op,
    Open,
    Outcome,
    Outgoing,
    Piece,
    Send,
    Sleep,
)
from privacy_gateway_client.errors import ConnectionLost, FieldError, InvalidRequest

T = TypeVar("T")
# failures before a byte of the request has left
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class BlockingDriver:
    """Runs operations in the thread of the caller, and those of a `gather` in threads of their own."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def close(self) -> None:
        self._http.close()

    def run(self, operation: Op[T]) -> T:
        values = self._steps(operation)
        try:
            while True:
                next(values)
        except StopIteration as end:
            result: T = end.value
            return result

    def iterate(self, operation: Op[Any]) -> Iterator[Any]:
        """The values that the operation emits."""
        yield from self._steps(operation)

    def _steps(self, operation: Op[T]) -> Generator[Any, None, T]:
        answer: Any = None
        failure: BaseException | None = None
        try:
            while True:
                try:
                    effect = operation.send(answer) if failure is None else operation.throw(failure)
                except StopIteration as end:
                    result: T = end.value
                    return result
                answer = failure = None
                if isinstance(effect, Emit):
                    yield effect.value
                    continue
                try:
                    answer = self._carry_out(effect)
                except Exception as error:
                    failure = error
        finally:
            operation.close()

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Send):
            request = effect.request
            return _exchange(lambda: _whole(self._http.send(_built(self._http, request, _body(request)))))
        if isinstance(effect, Open):
            request = effect.request
            return _exchange(lambda: _flow(self._http.send(_built(self._http, request, _body(request)), stream=True)))
        if isinstance(effect, Piece):
            return _exchange(lambda: next(effect.flow.source.pieces(), None))
        if isinstance(effect, Line):
            return _exchange(lambda: next(effect.flow.source.lines(), None))
        if isinstance(effect, Close):
            return effect.flow.source.answer.close()
        if isinstance(effect, Sleep):
            return time.sleep(effect.seconds)
        if isinstance(effect, Call):
            return effect.function()
        if isinstance(effect, Gather):
            return self._gather(effect)
        raise TypeError("not an effect")

    def _gather(self, effect: Gather) -> list[Outcome]:
        stopped = threading.Event()

        def one(operation: Op[Any]) -> Outcome:
            if stopped.is_set():
                operation.close()
                return Outcome(started=False)
            try:
                return Outcome(self.run(operation))
            except Exception as error:
                stopped.set()
                return Outcome(error=error)

        if len(effect.operations) == 1 or effect.concurrency == 1:
            return [one(operation) for operation in effect.operations]
        with ThreadPoolExecutor(effect.concurrency, thread_name_prefix="privacy-gateway-client") as pool:
            # each in a copy of the caller's context, in which its budget caps are
            waiting = [pool.submit(contextvars.copy_context().run, one, operation) for operation in effect.operations]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                stopped.set()
                raise


class AsyncDriver:
    """Runs operations on the running event loop, and those of a `gather` as tasks."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self, operation: Op[T]) -> T:
        answer: Any = None
        failure: BaseException | None = None
        try:
            while True:
                try:
                    effect = operation.send(answer) if failure is None else operation.throw(failure)
                except StopIteration as end:
                    result: T = end.value
                    return result
                answer = failure = None
                try:
                    answer = await self._carry_out(effect)
                except Exception as error:
                    failure = error
        finally:
            operation.close()

    async def iterate(self, operation: Op[Any]) -> AsyncIterator[Any]:
        """The values that the operation emits."""
        answer: Any = None
        failure: BaseException | None = None
        flows: list[Flow] = []
        try:
            while True:
                try:
                    effect = operation.send(answer) if failure is None else operation.throw(failure)
                except StopIteration:
                    return
                answer = failure = None
                if isinstance(effect, Emit):
                    yield effect.value
                    continue
                try:
                    answer = await self._carry_out(effect)
                    if isinstance(answer, Flow):
                        flows.append(answer)
                except Exception as error:
                    failure = error
        finally:
            operation.close()
            for flow in flows:  # those that a caller's loop has left before their end
                await flow.source.answer.aclose()

    async def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Send):
            return await self._send(effect.request)
        if isinstance(effect, Open):
            return await self._open(effect.request)
        if isinstance(effect, Piece):
            return await _exchanged(anext(effect.flow.source.pieces(), None))
        if isinstance(effect, Line):
            return await _exchanged(anext(effect.flow.source.lines(), None))
        if isinstance(effect, Close):
            return await effect.flow.source.answer.aclose()
        if isinstance(effect, Sleep):
            return await asyncio.sleep(effect.seconds)
        if isinstance(effect, Call):
            return await asyncio.to_thread(effect.function)
        if isinstance(effect, Gather):
            return await self._gather(effect)
        raise TypeError("not an effect")

    async def _send(self, request: Outgoing) -> Incoming:
        built = _building(lambda: _built(self._http, request, _async_body(request)))
        return _whole(await _exchanged(self._http.send(built)))

    async def _open(self, request: Outgoing) -> Flow:
        built = _building(lambda: _built(self._http, request, _async_body(request)))
        return _async_flow(await _exchanged(self._http.send(built, stream=True)))

    async def _gather(self, effect: Gather) -> list[Outcome]:
        free = asyncio.Semaphore(effect.concurrency)
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

        tasks = [asyncio.ensure_future(one(operation)) for operation in effect.operations]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise


class _Source:
    """The body of an answer that arrives in pieces: read as bytes or as lines, once."""

    def __init__(self, answer: httpx.Response, pieces: Any, lines: Any) -> None:
        self.answer = answer
        self._open_pieces, self._open_lines = pieces, lines
        self._opened: Any = None

    def pieces(self) -> Any:
        if self._opened is None:
            self._opened = self._open_pieces()
        return self._opened

    def lines(self) -> Any:
        if self._opened is None:
            self._opened = self._open_lines()
        return self._opened


def _built(http: httpx.Client | httpx.AsyncClient, request: Outgoing, content: Any) -> httpx.Request:
    return http.build_request(
        request.method, request.path, params=dict(request.params) or None, headers=request.headers, content=content
    )


def _body(request: Outgoing) -> Any:
    return request.content() if callable(request.content) else request.content


def _async_body(request: Outgoing) -> Any:
    if not callable(request.content):
        return request.content
    opened = request.content()

    async def pieces() -> AsyncIterator[bytes]:
        for piece in opened:
            yield piece

    return pieces()


def _whole(answer: httpx.Response) -> Incoming:
    return Incoming(answer.status_code, answer.headers, answer.content)


def _flow(answer: httpx.Response) -> Flow:
    return Flow(answer.status_code, answer.headers, _Source(answer, answer.iter_bytes, answer.iter_lines))


def _async_flow(answer: httpx.Response) -> Flow:
    return Flow(answer.status_code, answer.headers, _Source(answer, answer.aiter_bytes, answer.aiter_lines))


def _building(build: Callable[[], httpx.Request]) -> httpx.Request:
    try:
        return build()
    except httpx.InvalidURL:
        raise _too_long() from None


def _exchange(act: Callable[[], T]) -> T:
    """Errors of httpx hold the request and its content, so none leaves this module."""
    lost: ConnectionLost | None = None
    try:
        return act()
    except httpx.InvalidURL:
        pass
    except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
        lost = _lost(error)
    raise lost or _too_long()


async def _exchanged(act: Any) -> Any:
    lost: ConnectionLost | None = None
    try:
        return await act
    except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
        lost = _lost(error)
    raise lost


def _lost(error: Exception) -> ConnectionLost:
    return ConnectionLost(type(error).__name__, sent=not isinstance(error, _UNSENT))


def _too_long() -> InvalidRequest:
    return InvalidRequest((FieldError("query", "the parameters make the address too long"),))
