"""Calls of the operator's language models.

Guarantee: certificates are verified, addresses checked (`service/outbound.py`), redirects not followed,
cookies not kept; proxies and credentials of the environment are ignored. An answer takes no more memory and time than
the limits. Only the headers of `service/proxy/call.py` pass. A call is sent at most once. Each upstream has its own
connections.

Server-sent events (WHATWG HTML, section 9.2) do not depend on where their bytes are split, and take time linear in the
bytes. No more than `event_bytes_max` bytes wait for the end of an event, and no more than that for the end of a
line.
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import httpcore

from core.errors import QueueFull, UpstreamAnswerInvalid, UpstreamKeyRefused
from service import metrics
from service.config.settings import Settings
from service.outbound import CheckedNetwork, Resolve, system_resolve
from service.proxy import call as passed
from service.proxy.call import Call, outcome_of_status
from service.proxy.upstreams import Upstream

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class StreamEvent(NamedTuple):
    """`name` is empty if the event has none, for which the standard's default is `message`."""

    name: str
    data: str


class EventParser:
    """Reads one stream. `id` and `retry` are ignored: a call of a model is not resumed."""

    def __init__(self, *, event_bytes_max: int) -> None:
        self._bytes_max = event_bytes_max
        self._line = bytearray()
        self._is_first_line = True
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []
        self._bytes = 0

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that end in `chunk`. Raises UpstreamAnswerInvalid for a long event and for other than UTF-8."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        found: list[StreamEvent] = []
        for part in ended:
            self._extend(part)
            line = bytes(self._line)
            self._line.clear()
            event = self._end_line(line)
            if event is not None:
                found.append(event)
        self._extend(rest)
        return found

    def end(self) -> list[StreamEvent]:
        """The last event, if its blank line is missing. Raises UpstreamAnswerInvalid if a line is not complete."""
        if self._line:
            raise UpstreamAnswerInvalid(reason="incomplete")
        event = self._end_event()
        return [] if event is None else [event]

    def _extend(self, part: bytes) -> None:
        if len(self._line) + len(part) > self._bytes_max:
            raise UpstreamAnswerInvalid(reason="event-too-large")
        self._line += part

    def _end_line(self, line: bytes) -> StreamEvent | None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._end_event()
        if line.startswith(b":"):
            return None
        name, _, raw = line.partition(b":")
        if name not in (b"event", b"data"):
            return None
        self._bytes += len(line)
        if self._bytes > self._bytes_max:
            raise UpstreamAnswerInvalid(reason="event-too-large")
        try:
            value = raw.removeprefix(b" ").decode()
        except UnicodeDecodeError:
            raise UpstreamAnswerInvalid(reason="not-utf-8") from None
        if name == b"data":
            self._data.append(value)
        else:
            self._name = value
        return None

    def _end_event(self) -> StreamEvent | None:
        event = StreamEvent(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._bytes = "", 0
        self._data = []
        return event


_PATH = re.compile(r"/[A-Za-z0-9/_-]*")
_JSON = re.compile(r"application/(?:[a-z0-9.-]+\+)?json")
_EVENTS = re.compile(r"text/event-stream")
_KEY_SHOWN = "[key]"


@dataclass(frozen=True)
class ClientLimits:
    """Of one upstream: its calls and connections. Of one call: its bytes."""

    answer_bytes_max: int
    stream_bytes_max: int
    calls_max: int
    event_bytes_max: int = 1 << 20  # the last event of a response repeats its whole text
    idle_connections_max: int = 16  # kept for the next call, which saves a handshake
    idle_connection_s: float = 30.0  # below the 75 s of nginx, so that the upstream seldom closes one first


@dataclass(frozen=True)
class UpstreamAnswer:
    """A whole answer in UTF-8: of status 2xx as JSON, or an error of the upstream's own (4xx, 5xx) of any media type.

    `headers`: those that a client gets, names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_error(self) -> bool:
        return self.status >= 400


def client_limits(settings: Settings) -> ClientLimits:
    """The limits of the settings."""
    return ClientLimits(
        answer_bytes_max=settings.upstream_answer_bytes_max,
        stream_bytes_max=settings.upstream_stream_bytes_max,
        calls_max=settings.upstream_calls_max,
    )


class EventStream:
    """An answer of events. Iterate to the end or call `aclose`, which ends the upstream's work at once.

    Iterating raises UpstreamFailed where the answer cannot be used any further.
    """

    def __init__(self, call: Call, headers: Mapping[str, str], *, event_bytes_max: int, key: str | None) -> None:
        self.status = call.status
        self.headers = headers
        self._call = call
        self._parser = EventParser(event_bytes_max=event_bytes_max)
        self._key = key
        self._events: deque[StreamEvent] = deque()
        self._has_ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        try:
            while not self._events:
                if self._has_ended:
                    raise StopAsyncIteration
                await self._receive()
        except StopAsyncIteration:
            raise
        except BaseException as error:
            self._has_ended = True
            await self._call.fail(error)
            raise
        event = self._events.popleft()
        if self._key is not None and self._key in event.data:
            return event._replace(data=event.data.replace(self._key, _KEY_SHOWN))
        return event

    async def aclose(self) -> None:
        """Close the connection, unless the answer has ended."""
        self._has_ended = True
        self._events.clear()
        await self._call.close("abandoned")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _receive(self) -> None:
        piece = await self._call.read()
        if piece:
            self._events.extend(self._parser.feed(piece))
            return
        self._events.extend(self._parser.end())
        self._has_ended = True
        await self._call.close(outcome_of_status(self.status))


class UpstreamClient:
    """One for a gateway. `aclose` ends every connection."""

    def __init__(
        self,
        upstreams: Iterable[Upstream],
        limits: ClientLimits,
        *,
        resolve: Resolve = system_resolve,
        send_trace: bool = False,
    ) -> None:
        """Opens nothing. `send_trace`: whether calls have the header `traceparent`.

        Raises ValueError for a file of certificates that cannot be used."""
        self._limits = limits
        self._send_trace = send_trace
        self._pools = {upstream.name: _pool(upstream, limits, resolve) for upstream in upstreams}
        self._open = dict.fromkeys(self._pools, 0)

    async def send(self, upstream: Upstream, path: str, body: bytes, headers: Mapping[str, str]) -> UpstreamAnswer:
        """Call an upstream and return its whole answer. `headers`: those of the client's request.

        Raises UpstreamFailed; QueueFull beyond the limit of calls; InvalidInput for a header that may not pass.
        """
        found = await self._call(upstream, path, body, headers, streams=False)
        if isinstance(found, EventStream):
            raise TypeError("a stream was not asked for")
        return found

    async def stream(
        self, upstream: Upstream, path: str, body: bytes, headers: Mapping[str, str]
    ) -> UpstreamAnswer | EventStream:
        """Call an upstream for events. An `UpstreamAnswer` is an error of the upstream's own. Raises as `send`."""
        return await self._call(upstream, path, body, headers, streams=True)

    def check_capacity(self, upstream: Upstream) -> None:
        """Raise QueueFull if no call of this upstream may begin now."""
        if self._open[upstream.name] >= self._limits.calls_max:
            metrics.UPSTREAM_CALLS.labels(upstream.name, "full").inc()
            raise QueueFull("As many calls of this model's upstream are open as UPSTREAM_CALLS_MAX allows.")

    async def aclose(self) -> None:
        await asyncio.gather(*(pool.aclose() for pool in self._pools.values()))

    async def _call(
        self, upstream: Upstream, path: str, body: bytes, headers: Mapping[str, str], *, streams: bool
    ) -> UpstreamAnswer | EventStream:
        if not _PATH.fullmatch(path):
            raise ValueError("a path of letters, digits and / _ - alone")
        sent = _request_headers(upstream, body, headers, streams=streams)
        limits = self._limits
        self.check_capacity(upstream)
        call = Call(
            upstream,
            bytes_max=limits.stream_bytes_max if streams else limits.answer_bytes_max,
            on_close=lambda: self._ended(upstream.name),
        )
        self._open[upstream.name] += 1
        if self._send_trace and call.span:
            sent["traceparent"] = call.span.ref.traceparent
        try:
            await call.open(self._pools[upstream.name], path, body, sent)
            if call.status == 401:
                raise UpstreamKeyRefused(reason="unauthorized")
            shown = passed.from_upstream(call.headers)
            if call.status < 400:
                _check_form(call, _EVENTS if streams else _JSON)
                if streams:
                    return EventStream(call, shown, event_bytes_max=limits.event_bytes_max, key=upstream.key)
            else:
                call.limit(limits.answer_bytes_max)
            whole = await call.whole()
            await call.close(outcome_of_status(call.status))
        except BaseException as error:
            await call.fail(error)
            raise
        if upstream.key is not None:
            whole = whole.replace(upstream.key.encode(), _KEY_SHOWN.encode())
        return UpstreamAnswer(call.status, shown, whole)

    def _ended(self, name: str) -> None:
        self._open[name] -= 1


def _check_form(call: Call, media_type: re.Pattern[str]) -> None:
    if call.status >= 300:
        raise UpstreamAnswerInvalid(reason="redirect")
    if not media_type.fullmatch(call.content_type()):
        raise UpstreamAnswerInvalid(reason="content-type")


def _request_headers(upstream: Upstream, body: bytes, headers: Mapping[str, str], *, streams: bool) -> dict[str, str]:
    return {
        "host": urlsplit(upstream.base_url).netloc,
        "user-agent": "privacy-gateway",
        "accept": "text/event-stream" if streams else "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **upstream.default_headers,
        **passed.to_upstream(headers, upstream.kind),
        **upstream.own_headers,
    }


def _pool(upstream: Upstream, limits: ClientLimits, resolve: Resolve) -> httpcore.AsyncConnectionPool:
    try:
        context = ssl.create_default_context(cafile=str(upstream.ca_file) if upstream.ca_file else None)
    except (OSError, ssl.SSLError):
        raise ValueError(f"UPSTREAMS: ca_file of {upstream.name} holds no certificates") from None
    return httpcore.AsyncConnectionPool(
        ssl_context=context,
        max_connections=limits.calls_max,
        max_keepalive_connections=limits.idle_connections_max,
        keepalive_expiry=limits.idle_connection_s,
        network_backend=CheckedNetwork(upstream, resolve),
    )
