"""The content of an answer from its bytes, in pieces of bounded size, however far compressed content grows.

Requests ask for uncompressed content. An upstream that compresses nevertheless may use gzip.
"""

from __future__ import annotations

import zlib
from typing import Protocol

from core.upstream_errors import UpstreamAnswerInvalid

_PIECE_BYTES = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class Content(Protocol):
    """`feed` takes bytes as they arrive, after `piece` returned nothing."""

    def feed(self, raw: bytes) -> None: ...

    def piece(self) -> bytes:
        """The next piece; empty if more bytes are needed. Raises UpstreamAnswerInvalid."""

    def end(self) -> None:
        """No more bytes come. Raises UpstreamAnswerInvalid if some are missing."""


def content(encoding: str) -> Content:
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
