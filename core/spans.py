"""Spans of traces: which steps a request took, and when. What they are sent to is installed by the front end.

Guarantee: a span holds no text of a request, no subject, and nothing that was counted in a text. Its name is a constant
of the code or a route. Only the attributes of `Attribute` exist: ids that the gateway made, and names of its
configuration. An exception is recorded by its code, never by its message. Spans never fail or delay a request: without
an installed sink nothing is recorded, and a sink neither blocks nor raises.

Times are those of the steps, and say how long a text took. Whoever reads traces is an operator, who sees the same times
in the access log.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Literal, ParamSpec, Protocol, Self, TypeVar, get_args

from core.errors import GatewayError

Attribute = Literal[
    "http.request.method",
    "http.route",
    "http.response.status_code",
    "error.type",
    "gateway.request_id",
    "gateway.release_id",
    "gateway.tenant",
    "gateway.role",
    "gateway.script",
    "gateway.upstream",
    "gateway.model",
    "gateway.outcome",
    "gateway.job.id",
    "gateway.job.kind",
    "gateway.job.attempt",
]
ATTRIBUTES = frozenset(get_args(Attribute))
Kind = Literal["internal", "server", "client"]
Value = str | int

_P = ParamSpec("_P")
_R = TypeVar("_R")

INTERNAL_ERROR = "internal"
CANCELLED = "cancelled"
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class SpanRef:
    """What identifies a span: the ids of W3C Trace Context."""

    trace_id: int
    span_id: int

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"


@dataclass(slots=True)
class _Allowance:
    """How many spans a trace may still get."""

    left: int


class TraceSpan:
    """A step from its start to `end`, which passes it to the sink. `with` it to make its own steps its children."""

    __slots__ = (
        "_allowance",
        "_sink",
        "_token",
        "attributes",
        "code",
        "end_ns",
        "kind",
        "links",
        "name",
        "parent_id",
        "ref",
        "start_ns",
    )

    def __init__(
        self, sink: Sink, name: str, *, kind: Kind, trace_id: int, parent_id: int | None, allowance: _Allowance
    ) -> None:
        self.name = name
        self.kind = kind
        self.ref = SpanRef(trace_id, _random_id(8))
        self.parent_id = parent_id
        self.attributes: dict[str, Value] = {}
        self.links: list[SpanRef] = []
        self.code = ""
        self.start_ns = time.time_ns()
        self.end_ns = 0
        self._sink = sink
        self._allowance = allowance
        self._token: Token[TraceSpan] | None = None

    def set(self, name: Attribute, value: Value | None) -> None:
        """Set an attribute; one that is not in the table is left out."""
        if value is not None and name in ATTRIBUTES:
            self.attributes[name] = value

    def link(self, other: TraceSpan) -> None:
        """Name a span of another trace that this one belongs to."""
        if other is not NOTHING:
            self.links.append(other.ref)

    def fail(self, error: BaseException) -> None:
        """Record an error by its code."""
        if isinstance(error, GatewayError):
            self.code = error.code
        else:
            self.code = CANCELLED if isinstance(error, asyncio.CancelledError) else INTERNAL_ERROR
        self.set("error.type", self.code)

    def end(self) -> None:
        """Pass the span on. Later calls have no effect."""
        if self.end_ns == 0:
            self.end_ns = time.time_ns()
            self._sink.ended(self)

    def child(self, name: str, kind: Kind = "internal") -> TraceSpan:
        """A step of this one; `NOTHING` once the trace has as many spans as it may."""
        if self._allowance.left <= 0:
            self._sink.limited()
            return NOTHING
        self._allowance.left -= 1
        trace_id, parent_id = self.ref.trace_id, self.ref.span_id
        return TraceSpan(self._sink, name, kind=kind, trace_id=trace_id, parent_id=parent_id, allowance=self._allowance)

    def enter(self) -> None:
        """Make the steps that follow its children, until `leave`."""
        self._token = _current.set(self)

    def leave(self) -> None:
        if self._token is not None:
            _current.reset(self._token)
            self._token = None

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self.leave()
        if error is not None:
            self.fail(error)
        self.end()


class _Nothing(TraceSpan):
    """Takes the place of a span where none is recorded."""

    def __init__(self) -> None:
        self.name = ""
        self.ref = SpanRef(0, 0)

    def __bool__(self) -> bool:
        return False

    def set(self, *_: object) -> None:
        pass

    def link(self, _: TraceSpan) -> None:
        pass

    def fail(self, _: BaseException) -> None:
        pass

    def end(self) -> None:
        pass

    def child(self, *_: object, **__: object) -> TraceSpan:
        return self

    def enter(self) -> None:
        pass

    def leave(self) -> None:
        pass


NOTHING: TraceSpan = _Nothing()


class Sink(Protocol):
    """What becomes of spans. Its methods neither block nor raise."""

    def ended(self, span: TraceSpan) -> None: ...

    def limited(self) -> None:
        """A span was left out, because its trace has as many as it may."""
        ...


@dataclass(frozen=True)
class _Installed:
    sink: Sink
    sample_ratio: float
    per_trace_max: int


_installed: _Installed | None = None
_current: ContextVar[TraceSpan] = ContextVar("span", default=NOTHING)


def install(sink: Sink, *, sample_ratio: float, per_trace_max: int) -> None:
    """Record spans of this process from now on: of a share of the traces, and up to a number of each."""
    global _installed
    _installed = _Installed(sink, sample_ratio, per_trace_max)


def uninstall(sink: Sink) -> None:
    """Record nothing from now on, unless another sink was installed meanwhile."""
    global _installed
    if _installed is not None and _installed.sink is sink:
        _installed = None


def is_installed() -> bool:
    """Whether spans are recorded."""
    return _installed is not None


def root(
    name: str, *, kind: Kind = "internal", parent: SpanRef | None = None, because_of: Sequence[TraceSpan] = ()
) -> TraceSpan:
    """The first span of a trace, or of this gateway's part of the trace of `parent`.

    With `because_of` it is recorded if one of these spans is, and linked to them.
    """
    installed = _installed
    if installed is None:
        return NOTHING
    recorded = [span for span in because_of if span is not NOTHING]
    if because_of and not recorded:
        return NOTHING
    trace_id = _random_id(16) if parent is None else parent.trace_id
    if not because_of and trace_id & _LOW_64 >= int(installed.sample_ratio * (_LOW_64 + 1)):
        return NOTHING
    allowance = _Allowance(installed.per_trace_max - 1)
    parent_id = None if parent is None else parent.span_id
    span = TraceSpan(installed.sink, name, kind=kind, trace_id=trace_id, parent_id=parent_id, allowance=allowance)
    span.links += [each.ref for each in recorded]
    return span


_LOW_64 = (1 << 64) - 1


def span(name: str, kind: Kind = "internal") -> TraceSpan:
    """A step of the current span, if there is one."""
    return _current.get().child(name, kind)


def step(name: str) -> Callable[[Callable[_P, Awaitable[_R]]], Callable[_P, Awaitable[_R]]]:
    """Make each call of an asynchronous function a step of the current span."""

    def wrapped(function: Callable[_P, Awaitable[_R]]) -> Callable[_P, Awaitable[_R]]:
        @wraps(function)
        async def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with span(name):
                return await function(*args, **kwargs)

        return call

    return wrapped


def current() -> TraceSpan:
    """The span whose steps the running code belongs to, or `NOTHING`."""
    return _current.get()


def parsed(traceparent: str) -> SpanRef | None:
    """The span that a header of W3C Trace Context names; None for one that is malformed or not recorded."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or not int(found[3], 16) & 1:
        return None
    ref = SpanRef(int(found[1], 16), int(found[2], 16))
    return ref if ref.trace_id and ref.span_id else None


def _random_id(size: int) -> int:
    while True:
        if number := int.from_bytes(os.urandom(size), "big"):
            return number
