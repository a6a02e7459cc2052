"""One call of an upstream, from its request to the end of its answer, with the errors of `core.errors`.

Guarantee: once the call has ended, failed or been cancelled, its connection is closed or, after a whole answer, free
for the next call. No part of an answer is in an error. A call is never repeated: the pool drops a kept connection that
the upstream has closed before it sends anything on it, and what was sent once is not sent again.

Content is read in pieces of bounded size, however far compressed content grows. Requests ask for uncompressed content;
an upstream that compresses nevertheless may use gzip. The headers that pass are listed below, and every other header
stays behind. No header of a client that names it, its key or its address is among them: `Authorization`, `X-Api-Key`,
`Cookie`, `User-Agent`, `X-Forwarded-For`, `X-Stainless-*`.
"""

import asyncio
import re
import time
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, cast

import httpcore

from core import errors as errors
from core import spans
from core.errors import InvalidInput, UpstreamAnswerInvalid
from service import metrics
from service.config.providers import UpstreamKind
from service.outbound import TAIL_BYTES, NotConnected, UpstreamSocket
from service.proxy.upstreams import Upstream

_PIECE_BYTES = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class CallContent(Protocol):
    """`feed` takes bytes as they arrive, after `piece` returned nothing."""

    def feed(self, raw: bytes) -> None: ...

    def piece(self) -> bytes:
        """The next piece; empty if more bytes are needed. Raises UpstreamAnswerInvalid."""

    def end(self) -> None:
        """No more bytes come. Raises UpstreamAnswerInvalid if some are missing."""


def content(encoding: str) -> CallContent:
    """The reader of a `Content-Encoding`. Raises UpstreamAnswerInvalid for one that was not asked for."""
    if encoding in ("", "identity"):
        return _Plain()
    if encoding == "gzip":
        return _Gzip()
    raise UpstreamAnswerInvalid(reason="content-encoding")


class _Plain:
    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, raw: bytes) -> None:
        self._waiting = raw

    def piece(self) -> bytes:
        found, self._waiting = self._waiting, b""
        return found

    def end(self) -> None:
        pass


class _Gzip:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP)
        self._waiting = b""

    def feed(self, raw: bytes) -> None:
        self._waiting = raw

    def piece(self) -> bytes:
        try:
            found = self._inflate.decompress(self._waiting, _PIECE_BYTES)
        except zlib.error:
            raise UpstreamAnswerInvalid(reason="content-encoding") from None
        self._waiting = self._inflate.unconsumed_tail
        if self._inflate.unused_data:
            raise UpstreamAnswerInvalid(reason="content-encoding")
        return found

    def end(self) -> None:
        if not self._inflate.eof:
            raise UpstreamAnswerInvalid(reason="incomplete")


RawHeaders = list[tuple[bytes, bytes]]

_CHARSETS = ("utf-8", "utf8", "us-ascii")


class Call:
    """Belongs to one task at a time. Whoever made it calls `close` or `fail`."""

    def __init__(self, upstream: Upstream, *, bytes_max: int, on_close: Callable[[], None]) -> None:
        self.status = 0
        self.headers: RawHeaders = []
        self._upstream = upstream
        self._bytes_max = bytes_max
        self._began = time.monotonic()
        self._end_at = asyncio.get_running_loop().time() + upstream.total_timeout_s
        self._response: httpcore.Response | None = None
        self._raw: AsyncIterator[bytes] | None = None
        self._content: CallContent | None = None
        self._raw_bytes = self._content_bytes = 0
        self._raw_tail = b""
        self._is_open = True
        self._on_close = on_close
        self.span = spans.span("call a language model", kind="client")
        self.span.set("gateway.upstream", upstream.name)
        metrics.UPSTREAM_OPEN.labels(upstream.name).inc()

    async def open(self, pool: httpcore.AsyncConnectionPool, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Send the request and read the head of the answer. Raises UpstreamFailed."""
        given = self._upstream
        request = httpcore.Request(
            "POST",
            httpcore.URL(given.base_url + path),
            headers=list(headers.items()),
            content=body,
            extensions={
                "timeout": {
                    "connect": given.connect_timeout_s,
                    "pool": given.connect_timeout_s,
                    "read": given.read_timeout_s,
                    "write": given.read_timeout_s,
                }
            },
        )
        with _own_errors(began=False):
            async with asyncio.timeout_at(self._end_at):
                self._response = await pool.handle_async_request(request)
        metrics.UPSTREAM_FIRST_BYTE_SECONDS.labels(given.name).observe(time.monotonic() - self._began)
        self.status, self.headers = self._response.status, self._response.headers
        self._raw = aiter(cast(AsyncIterable[bytes], self._response.stream))
        self._content = content(self.header("content-encoding").strip().lower())

    def limit(self, bytes_max: int) -> None:
        """Lower the limit of the answer's bytes."""
        self._bytes_max = min(self._bytes_max, bytes_max)

    def header(self, name: str) -> str:
        """A header of the answer; of several, all separated by commas. Empty without one."""
        wanted = name.encode()
        return ", ".join(value.decode("latin-1") for key, value in self.headers if key.lower() == wanted)

    def content_type(self) -> str:
        """The media type of an answer in UTF-8; empty for one without, or in another charset."""
        media_type, *parameters = (part.strip() for part in self.header("content-type").lower().split(";"))
        charsets = [part.removeprefix("charset=").strip('"') for part in parameters if part.startswith("charset=")]
        return media_type if all(charset in _CHARSETS for charset in charsets) else ""

    async def read(self) -> bytes:
        """The next piece of the content, which is empty at its end. Raises UpstreamFailed."""
        if self._content is None or self._raw is None:
            raise RuntimeError("the call is not open")
        while True:
            piece = self._content.piece()
            self._content_bytes += len(piece)
            if max(self._content_bytes, self._raw_bytes) > self._bytes_max:
                raise errors.UpstreamAnswerInvalid(reason="too-large")
            if piece:
                return piece
            with _own_errors(began=True):
                async with asyncio.timeout_at(self._end_at):
                    raw = await anext(self._raw, None)
            if raw is None:
                self._content.end()
                self._check_end()
                return b""
            self._raw_bytes += len(raw)
            self._raw_tail = (self._raw_tail + raw)[-TAIL_BYTES:]
            self._content.feed(raw)

    async def whole(self) -> bytes:
        """The content. Raises UpstreamFailed."""
        body = bytearray()
        while piece := await self.read():
            body += piece
        try:
            body.decode()
        except UnicodeDecodeError:
            raise errors.UpstreamAnswerInvalid(reason="not-utf-8") from None
        return bytes(body)

    async def close(self, outcome: str) -> None:
        """End the call: at once, whether or not the answer has ended."""
        if not self._is_open:
            return
        self._is_open = False
        self._on_close()
        metrics.UPSTREAM_OPEN.labels(self._upstream.name).dec()
        metrics.UPSTREAM_CALLS.labels(self._upstream.name, outcome).inc()
        self.span.set("gateway.outcome", outcome)
        self.span.set("http.response.status_code", self.status or None)
        self.span.end()
        if self._response is not None:
            await self._response.aclose()

    async def fail(self, error: BaseException) -> None:
        """End the call because of an error."""
        self.span.fail(error)
        await self.close(_outcome_of(error))

    def _check_end(self) -> None:
        """Let nobody else use a connection on which more was sent than the answer."""
        if self._response is None:
            return
        socket = self._response.extensions["network_stream"]
        is_chunked = "chunked" in self.header("transfer-encoding").lower()
        last = b"0\r\n\r\n" if is_chunked else self._raw_tail or b"\r\n\r\n"
        if isinstance(socket, UpstreamSocket) and not socket.tail.endswith(last[-TAIL_BYTES:]):
            socket.spend()


def outcome_of_status(status: int) -> str:
    """The class of an answer in the metrics."""
    if status == 429:
        return "limited"
    return "server-error" if status >= 500 else "client-error" if status >= 400 else "answered"


def _outcome_of(error: BaseException) -> str:
    outcomes: dict[type[BaseException], str] = {
        errors.UpstreamUnreachable: "unreachable",
        errors.UpstreamTimeout: "timeout",
        errors.UpstreamAnswerInvalid: "invalid",
        errors.UpstreamKeyRefused: "key-refused",
    }
    return outcomes.get(type(error), "abandoned")


@contextmanager
def _own_errors(*, began: bool) -> Iterator[None]:
    """Errors of the connection as those of `core.errors`. `began`: the answer has begun."""
    try:
        yield
    except TimeoutError:
        raise errors.UpstreamTimeout(reason="total") from None
    except (httpcore.ConnectTimeout, httpcore.PoolTimeout):
        raise errors.UpstreamTimeout(reason="connect") from None
    except httpcore.TimeoutException:
        raise errors.UpstreamTimeout(reason="silent") from None
    except NotConnected as error:
        raise errors.UpstreamUnreachable(reason=error.reason) from None
    except httpcore.ConnectError:
        raise errors.UpstreamUnreachable(reason="connect") from None
    except httpcore.ProtocolError:
        raise errors.UpstreamAnswerInvalid(reason="framing" if began else "not-http") from None
    except httpcore.NetworkError:
        if began:
            raise errors.UpstreamAnswerInvalid(reason="framing") from None
        raise errors.UpstreamUnreachable(reason="closed") from None


# Of a request: flags of the wire format.
TO_UPSTREAM: Mapping[UpstreamKind, frozenset[str]] = {
    "openai": frozenset({"openai-beta"}),
    "anthropic": frozenset({"anthropic-version", "anthropic-beta"}),
}
# Of an answer: what clients need to retry and to report a fault. Names of the operator's account are not passed on.
FROM_UPSTREAM = frozenset(
    {
        "content-type", "retry-after", "retry-after-ms", "x-should-retry", "x-request-id", "request-id",
        "openai-processing-ms", "openai-version",
    }
)  # fmt: skip
FROM_UPSTREAM_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")

_DATE = r"20\d\d-?\d\d-?\d\d"
_FLAG = rf"(?:[a-z0-9]{{1,32}}-){{1,8}}{_DATE}|[a-z][a-z0-9_-]{{0,31}}=(?:v\d{{1,2}}|experimental|{_DATE})|{_DATE}"
# A name and a date, or a name and a version: nothing else of a client's text.
_FLAGS = re.compile(rf"(?:{_FLAG})(?:, ?(?:{_FLAG}))*")
_FLAGS_CHARS_MAX = 1024
_VALUE = re.compile(r"[ -~]{1,512}")


def to_upstream(headers: Mapping[str, str], kind: UpstreamKind) -> dict[str, str]:
    """The headers of a client's request that an upstream gets, names in lower case.

    Raises: InvalidInput for a value that is no list of flags.
    """
    chosen = {name.lower(): value for name, value in headers.items() if name.lower() in TO_UPSTREAM[kind]}
    for name, value in chosen.items():
        if len(value) > _FLAGS_CHARS_MAX or not _FLAGS.fullmatch(value):
            raise InvalidInput(
                "The header holds flags of the API, separated by commas: a name and a date, such as "
                "context-management-2025-06-27, or a name and a version, such as assistants=v2.",
                field=name,
            )
    return chosen


def from_upstream(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers of an upstream's answer that a client gets, names in lower case. The last of several counts."""
    chosen: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if (name in FROM_UPSTREAM or name.startswith(FROM_UPSTREAM_PREFIXES)) and _VALUE.fullmatch(value):
            chosen[name] = value
    return chosen
