"""Pure ASGI middleware, outermost first as `service/app.py` lists them.

`RequestContext` assigns the request id, sets the headers that every answer has, writes the access log line and updates
the metrics. It turns an unexpected exception into a 500 without details, and logs its type and where it was raised,
never its message. `RequestTracing` makes the span of a request, and names its trace in the access log.
`BodyLimit` refuses a body that is too large with 413, whether or not the client announced its length.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core import spans
from core.spans import TraceSpan
from service import metrics
from service.http import problems
from service.http.api_page import PAGE_PATH
from service.http.strict import whole_number

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

    def __init__(self, span: TraceSpan, trace_id: str | None, *, tenants: bool) -> None:
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


access_log = logging.getLogger("privacy_gateway.access")

_REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
_UNMATCHED = "unmatched"
MIB = 1024 * 1024
JOB_JSON_BYTES_MAX = 64 * MIB  # a job as one JSON body, which is parsed in memory
# A job as JSON lines, which are written to the disk as they arrive. TENANT_DISK_BYTES_MAX bounds those of a tenant.
JOB_STREAM_BYTES_MAX = 2048 * MIB
BODY_IDLE_S = 30.0  # in which nothing of a body arrives; streams of documents have `stream_idle_s`
TRANSFER_BYTES_PER_S_MIN = 1024  # the slowest rate of a body or an answer
VECTOR_FILE_PATH = "/embed/vector/safetensors"
FILES_PATH = "/v1/files"
FILE_BYTES_MAX = 200 * MIB  # of a file of a batch, as OpenAI's; it is written to the disk as it arrives
STREAM_PATH = "/sanitize/batch"
_FIXED_HEADERS = {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"}
# An answer that is shown as a page loads nothing and runs nothing. A route that makes a page sets a policy of its own.
_NO_PAGE_POLICY = "default-src 'none'; frame-ancestors 'none'"
# The page of the API has an inline script and loads its files from the gateway.
_API_PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'"
)


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


# Of answers that do not set them.
_DEFAULTS = _encoded({"Cache-Control": "no-store", "Content-Security-Policy": _NO_PAGE_POLICY})
_API_PAGE_DEFAULTS = _encoded({"Cache-Control": "no-store", "Content-Security-Policy": _API_PAGE_POLICY})
_POSITIONS_LOGGED = 6
# A client may miss a 413 that arrives while it still sends. So many bodies' worth is read and dropped first.
_DISCARD_FACTOR = 16


class RequestContext:
    """Request id, fixed headers, access log, request metrics, and the handler of unexpected exceptions."""

    def __init__(self, app: ASGIApp, *, hsts_max_age_s: int = 0, tracing: RequestTracing | None = None) -> None:
        self.app = app
        self._tracing = tracing or RequestTracing()
        fixed = dict(_FIXED_HEADERS)
        if hsts_max_age_s:
            fixed["Strict-Transport-Security"] = f"max-age={hsts_max_age_s}; includeSubDomains"
        self._fixed = _encoded(fixed)
        self._replaced = {b"x-request-id", *(name for name, _ in self._fixed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        offered = headers.get("x-request-id", "")
        request_id = offered if _REQUEST_ID.match(offered) else uuid.uuid4().hex
        traced = self._tracing.begin(scope, headers, None if offered == request_id else request_id)
        scope.setdefault("state", {})["request_id"] = request_id
        started = time.perf_counter()
        status = 500
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                traced.respond()
                own = [(name, value) for name, value in message["headers"] if name not in self._replaced]
                names = {name for name, _ in own}
                defaults = _API_PAGE_DEFAULTS if scope["path"] == PAGE_PATH else _DEFAULTS
                further = _encoded(scope["state"].get("headers", {}))
                message["headers"] = [
                    *own,
                    (b"x-request-id", request_id.encode("latin-1")),
                    *self._fixed,
                    *(pair for pair in (*defaults, *further) if pair[0] not in names),
                ]
            await send(message)

        try:
            with traced:
                await self.app(scope, receive, send_with_headers)
        except Exception as error:
            raised = {"request_id": request_id, "kind": type(error).__name__, "at": _positions(error)}
            access_log.error("unforeseen", extra={"fields": raised})
            if begun:
                raise RuntimeError("an answer broke off") from None
            await problems.internal_error()(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - started
            # The route's template, because a path may contain text.
            route = getattr(scope.get("route"), "path", _UNMATCHED)
            metrics.requests_of(route, status).inc()
            metrics.request_seconds_of(route).observe(seconds)
            traced.end(route, status, scope["state"].get("tenant"))
            fields = {
                "request_id": request_id,
                "trace_id": traced.trace_id,
                "tenant": scope["state"].get("tenant"),
                "method": scope["method"],
                "route": route,
                "status": status,
                "duration_ms": round(seconds * 1000, 1),
                **getattr(scope["state"].get("identity"), "words", {}),
            }
            access_log.info("request", extra={"fields": fields})


class BodyLimit:
    """Refuse a body above the limit of its path with 413.

    The limit is `vectors_bytes_max` for files of vectors, about FILE_BYTES_MAX for those of batches, JOB_JSON_BYTES_MAX
    or JOB_STREAM_BYTES_MAX (uploads) under `/jobs/`, and `bytes_max` elsewhere. A stream of documents is read line
    by line and limits its lines itself.
    """

    def __init__(self, app: ASGIApp, *, bytes_max: int, vectors_bytes_max: int) -> None:
        self.app = app
        self.bytes_max = bytes_max
        self.vectors_bytes_max = vectors_bytes_max
        self.job_bytes_max = JOB_JSON_BYTES_MAX
        self.job_stream_bytes_max = JOB_STREAM_BYTES_MAX

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"] == STREAM_PATH:
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        bytes_max = self._bytes_max(scope["path"], headers.get("content-type", ""))
        announced = whole_number(headers.get("content-length"))
        if announced is not None and announced > bytes_max:
            await self._discard(receive, 0)
            await problems.from_status(HTTPException(413))(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > bytes_max:
                    if message.get("more_body"):
                        await self._discard(receive, received)
                    raise HTTPException(413)
            return message

        await self.app(scope, counted, send)

    def _bytes_max(self, path: str, content_type: str) -> int:
        if path == VECTOR_FILE_PATH:
            return self.vectors_bytes_max
        if path == FILES_PATH:
            return FILE_BYTES_MAX + MIB  # with the form around it
        if not path.startswith("/jobs/"):
            return self.bytes_max
        return self.job_bytes_max if is_json(content_type) else self.job_stream_bytes_max

    async def _discard(self, receive: Receive, received: int) -> None:
        discarded_to = received + self.bytes_max * _DISCARD_FACTOR
        while received < discarded_to:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body"):
                return
            received += len(message.get("body", b""))


def _positions(error: BaseException) -> list[str]:
    """File, line and function of the innermost calls: source text only, no value of a variable."""
    frames = traceback.extract_tb(error.__traceback__)[-_POSITIONS_LOGGED:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]


def is_json(content_type: str) -> bool:
    media = content_type.split(";", 1)[0].strip().lower()
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


def is_json_lines(content_type: str) -> bool:
    """Whether a body of this type is JSON lines."""
    return content_type.split(";", 1)[0].strip().lower() in ("application/x-ndjson", "application/jsonl")


class JsonLines(logging.Formatter):
    """One JSON object for each record: the gateway's own events and fields, and the messages of the HTTP server.

    For other libraries only the name is printed, and for exceptions nothing, because either could contain text.
    `is_terminal`: for a reader, the time of day, the event and its fields instead.
    """

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def format(self, record: logging.LogRecord) -> str:
        known = record.name.startswith("privacy_gateway.") or (record.name == "uvicorn.error" and not record.exc_info)
        event = record.getMessage() if known else f"message of {record.name}"
        fields = getattr(record, "fields", {})
        at = datetime.fromtimestamp(record.created, UTC)
        if self._is_terminal:
            shown = [f"{name}={value}" for name, value in fields.items() if value is not None]
            level = [] if record.levelno <= logging.INFO else [record.levelname]
            return " ".join([at.astimezone().strftime("%H:%M:%S"), *level, event, *shown])
        line = {"time": at.isoformat(timespec="milliseconds"), "level": record.levelname, "event": event}
        return orjson.dumps(line | fields).decode()


class SlowBody(HTTPException):
    """The 408 of a body that arrives too slowly. The connection is closed: the rest of the body is never read."""

    def __init__(self) -> None:
        super().__init__(408, headers={"Connection": "close"})


class BodyPace:
    """Refuse a body that arrives too slowly with 408. uvicorn has no such limit.

    A body has BODY_IDLE_S seconds of waiting to spend. Every received byte earns 1 / TRANSFER_BYTES_PER_S_MIN seconds,
    and the stock never exceeds BODY_IDLE_S. A client may thus pause for BODY_IDLE_S seconds, and over longer times it
    must send TRANSFER_BYTES_PER_S_MIN bytes a second. Only the time in which the gateway waits for the client counts.

    A stream of documents limits the time between its lines itself (`service/http/ndjson.py`), because its client may
    wait for answers before it sends more.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._idle_s = BODY_IDLE_S
        self._bytes_per_s_min = TRANSFER_BYTES_PER_S_MIN

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == STREAM_PATH:
            await self.app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        left_s = self._idle_s
        complete = begun = False

        async def in_time() -> Message:
            nonlocal left_s, complete
            if complete:
                return await receive()  # waits for the disconnect
            started = loop.time()
            try:
                async with asyncio.timeout(left_s):
                    message = await receive()
            except TimeoutError:
                complete = True
                if begun:
                    return {"type": "http.disconnect"}  # an answer that does not need the body ends with it
                raise SlowBody from None
            earned_s = len(message.get("body", b"")) / self._bytes_per_s_min
            left_s = min(self._idle_s, left_s - (loop.time() - started) + earned_s)
            complete = not message.get("more_body", False)
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, in_time, noted)
        except SlowBody as error:  # while a body above its limit was being dropped
            await problems.from_status(error)(scope, receive, send)
