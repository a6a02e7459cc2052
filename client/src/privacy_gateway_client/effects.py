"""The logic of every call as generators that yield effects, so that one implementation serves both clients.

An operation is a generator (`Op[T]`) that yields effects and returns a result. The driver of a client
(`blocking_client.py`, `async_client.py`) carries the effects out, blocking or on an event loop. The functions below
make effects with typed results: an operation writes `answer = yield from send(request)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from privacy_gateway_client.errors import FieldError, InvalidRequest

T = TypeVar("T")
_NOT_IN_PATHS = re.compile(r"[?#%\\\s\x00-\x1f]")


@dataclass(frozen=True)
class Outgoing:
    """A request. `content`: bytes, or a function that opens an iterator of them for each attempt.

    repeatable: whether the request may be sent again after its bytes have left and no answer came: it has an
        idempotency key, reads, or costs nothing.

    Raises InvalidRequest for a name in `path` that would lead to another path: `../vault` in place of a domain's name.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Callable[[], Iterable[bytes]] | None = field(default=None, repr=False)
    repeatable: bool = True

    def __post_init__(self) -> None:
        if _NOT_IN_PATHS.search(self.path) or {"", ".", ".."} & set(self.path.split("/")[1:]):
            raise InvalidRequest((FieldError("path", "a name or an id is empty or has characters that none has"),))


@dataclass(frozen=True)
class Incoming:
    """A complete answer. Names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Flow:
    """An answer whose body arrives piece by piece. `source`: the driver's own."""

    status: int
    headers: Mapping[str, str]
    source: Any = field(repr=False)


@dataclass(frozen=True)
class Emit:
    """A value for the loop of the caller."""

    value: Any


# what the driver does with itself, or gives to the caller's loop
Effect = Callable[[Any], Any] | Emit
Op = Generator[Effect, Any, T]


@dataclass(frozen=True)
class Outcome:
    """How one of several operations ended. `error` and `value` are None for one that was not started."""

    value: Any = None
    error: BaseException | None = None
    started: bool = True


def send(request: Outgoing) -> Op[Incoming]:
    """Send and receive the whole answer. Raises ConnectionLost."""
    answer: Incoming = yield lambda driver: driver.send(request)
    return answer


def open_flow(request: Outgoing) -> Op[Flow]:
    """Send, and receive the head of the answer. Raises ConnectionLost."""
    flow: Flow = yield lambda driver: driver.open(request)
    return flow


def next_piece(flow: Flow) -> Op[bytes | None]:
    """The next bytes of the body, None at its end. Raises ConnectionLost."""
    piece: bytes | None = yield lambda driver: driver.piece(flow)
    return piece


def next_line(flow: Flow) -> Op[str | None]:
    """The next line of the body without its end, None at the end of the body. Raises ConnectionLost."""
    line: str | None = yield lambda driver: driver.line(flow)
    return line


def close_flow(flow: Flow) -> Op[None]:
    yield lambda driver: driver.close_flow(flow)


def sleep(seconds: float) -> Op[None]:
    yield lambda driver: driver.sleep(seconds)


def in_thread(function: Callable[[], T]) -> Op[T]:
    """Run a function that blocks; an event loop is not stopped by it."""
    value: T = yield lambda driver: driver.call(function)
    return value


def gather(operations: Sequence[Op[Any]], *, concurrency: int) -> Op[list[Outcome]]:
    """Run operations, at most `concurrency` at a time. After the first error no further one is started.

    The outcomes have the order of the operations. Nothing is raised for an operation that fails."""
    outcomes: list[Outcome] = yield lambda driver: driver.gather(operations, concurrency)
    return outcomes


def emit(value: Any) -> Op[None]:
    """Give the caller's loop its next value."""
    yield Emit(value)
