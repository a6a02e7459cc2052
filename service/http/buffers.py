"""A binary answer made of several buffers, which are sent without being joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class BuffersResponse(Response):
    """Sends `buffers` one after another. `Exchange` sends a large one in pieces, none of them copied.

    kept: an object that exists until the answer has been sent, such as the owner of a buffer's memory.
    """

    def __init__(
        self,
        buffers: Sequence[bytes | memoryview],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        kept: object = None,
    ) -> None:
        size = str(sum(map(len, buffers)))
        super().__init__(headers={**(headers or {}), "Content-Length": size}, media_type=media_type)
        self._buffers = buffers
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for buffer in self._buffers:
            await send({"type": "http.response.body", "body": buffer, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
