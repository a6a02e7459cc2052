"""The span of a request, and the id of its trace in the access log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from starlette.datastructures import Headers
from starlette.types import Scope

from core import spans
from core.spans import Span

_TRACE_ID = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD = "_OTHER"  # a client may send any word
# asked for every few seconds, and of no interest
_NOT_TRACED = frozenset({"/livez", "/readyz", "/metrics"})


@dataclass(frozen=True)
class RequestTracing:
    """`tenants`: whether spans name the tenant. `accept_incoming`: whether a client's `traceparent` decides the trace,
    and whether it is recorded."""

    tenants: bool = False
    accept_incoming: bool = False

    def begin(self, scope: Scope, headers: Headers, request_id: str | None) -> TracedRequest:
        """`request_id`: one that the gateway made."""
        offered = headers.get("traceparent", "")
        named = _TRACE_ID.fullmatch(offered)
        trace_id = named[1] if named else None
        if not spans.is_installed() or scope["path"] in _NOT_TRACED:
            return TracedRequest(spans.NOTHING, trace_id, tenants=False)
        parent = spans.parsed(offered) if self.accept_incoming else None
        if parent is None and self.accept_incoming and named:
            return TracedRequest(spans.NOTHING, trace_id, tenants=False)  # the caller records nothing of this trace
        span = spans.root("request", kind="server", parent=parent)
        method = scope["method"] if scope["method"] in _METHODS else _OTHER_METHOD
        span.name = method
        span.set("http.request.method", method)
        span.set("gateway.request_id", request_id)
        return TracedRequest(span, f"{span.ref.trace_id:032x}" if span else trace_id, tenants=self.tenants)


class TracedRequest:
    """A request from its head to the end of its answer. `with` it around the work."""

    def __init__(self, span: Span, trace_id: str | None, *, tenants: bool) -> None:
        self.trace_id = trace_id
        self._span = span
        self._responding = spans.NOTHING
        self._tenants = tenants

    def __enter__(self) -> Self:
        self._span.enter()
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._span.leave()
        if error is not None:
            self._span.fail(error)

    def respond(self) -> None:
        """The head of the answer is sent."""
        if self._span:
            self._responding = self._span.child("respond")

    def end(self, route: str, status: int, tenant: str | None) -> None:
        """The answer was sent, or broke off."""
        if not self._span:
            return
        self._responding.end()
        self._span.name = f"{self._span.name} {route}"
        self._span.set("http.route", route)
        self._span.set("http.response.status_code", status)
        if self._tenants:
            self._span.set("gateway.tenant", tenant)
        self._span.end()
