"""The blocking client, its driver, which carries out the effects of an operation with `httpx.Client`, and what both
drivers share.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

import httpx
from typing_extensions import Self, Unpack

from privacy_gateway_client.connection import Settings, http_options
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Emit, Flow, Incoming, Op, Outcome, Outgoing
from privacy_gateway_client.errors import ConnectionLost, FieldError, InvalidRequest
from privacy_gateway_client.spaces import Client

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
        flows: list[Flow] = []
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
                    answer = effect(self)
                except Exception as error:
                    failure = error
                if isinstance(answer, Flow):
                    flows.append(answer)
        finally:
            operation.close()
            for flow in flows:  # also those that a caller's loop has left before their end
                flow.source.answer.close()

    def send(self, request: Outgoing) -> Incoming:
        return _exchange(lambda: whole(self._http.send(built(self._http, request, _body(request)))))

    def open(self, request: Outgoing) -> Flow:
        return _exchange(lambda: _flow(self._http.send(built(self._http, request, _body(request)), stream=True)))

    def piece(self, flow: Flow) -> Any:
        return _exchange(lambda: next(flow.source.pieces(), None))

    def line(self, flow: Flow) -> Any:
        return _exchange(lambda: next(flow.source.lines(), None))

    def close_flow(self, flow: Flow) -> None:
        flow.source.answer.close()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def call(self, function: Callable[[], T]) -> T:
        return function()

    def gather(self, operations: Sequence[Op[Any]], concurrency: int) -> list[Outcome]:
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

        if len(operations) == 1 or concurrency == 1:
            return [one(operation) for operation in operations]
        with ThreadPoolExecutor(concurrency, thread_name_prefix="privacy-gateway-client") as pool:
            # each in a copy of the caller's context, in which its budget caps are
            waiting = [pool.submit(contextvars.copy_context().run, one, operation) for operation in operations]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                stopped.set()
                raise


class Source:
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


def built(http: httpx.Client | httpx.AsyncClient, request: Outgoing, content: Any) -> httpx.Request:
    return http.build_request(
        request.method, request.path, params=dict(request.params) or None, headers=request.headers, content=content
    )


def _body(request: Outgoing) -> Any:
    return request.content() if callable(request.content) else request.content


def whole(answer: httpx.Response) -> Incoming:
    return Incoming(answer.status_code, answer.headers, answer.content)


def _flow(answer: httpx.Response) -> Flow:
    return Flow(answer.status_code, answer.headers, Source(answer, answer.iter_bytes, answer.iter_lines))


def _exchange(act: Callable[[], T]) -> T:
    """Errors of httpx hold the request and its content, so none leaves this module."""
    lost: ConnectionLost | None = None
    try:
        return act()
    except httpx.InvalidURL:
        pass
    except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
        lost = lost_by(error)
    raise lost or too_long()


def lost_by(error: Exception) -> ConnectionLost:
    return ConnectionLost(type(error).__name__, sent=not isinstance(error, _UNSENT))


def too_long() -> InvalidRequest:
    return InvalidRequest((FieldError("query", "the parameters make the address too long"),))


class Gateway(Client[BlockingDriver]):
    """A client of the gateway at `base_url`, for one API key; several threads may share it.

    settings: see `Settings`. Close it, or use it as a context manager.
    """

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        transport = settings.get("transport")
        http = httpx.Client(transport=transport, **http_options(base_url, api_key, settings))
        super().__init__(Core.of(base_url, settings), BlockingDriver(http))

    def close(self) -> None:
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
