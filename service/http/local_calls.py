"""Calls of this gateway's own routes, for work that goes on after its request.

Guarantee: a call runs through the middleware, the route and the error handlers that a request over HTTP runs through,
with the identity of a caller that was authenticated before. It takes no place of the tenant and is not counted against
its rate: whoever calls limits how many calls run at a time.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Scope

from service.http.auth import Caller


@dataclass
class LocalAnswer:
    """The answer to a call. `headers`: names in lower case."""

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)


class LocalCalls:
    """The routes of one gateway, from the moment that its application is built."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._opened = asyncio.Event()

    def open(self, app: ASGIApp) -> None:
        self._app = app
        self._opened.set()

    async def post(
        self, path: str, body: bytes, caller: Caller, headers: Mapping[str, str], *, left: asyncio.Event
    ) -> LocalAnswer:
        """Send JSON to a route. When `left` is set, the route sees that its client has left."""
        await self._opened.wait()
        answer, content = LocalAnswer(), bytearray()
        named = {**headers, "content-type": "application/json", "content-length": str(len(body))}
        scope: Scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": None,
            "server": None, "headers": [(name.lower().encode(), text.encode()) for name, text in named.items()],
            "state": {"identity": caller, "tenant": caller.tenant, "headers": {}},
        }  # fmt: skip
        waiting = [body]

        async def receive() -> Message:
            if waiting:
                return {"type": "http.request", "body": waiting.pop(), "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode().lower(): text.decode("latin-1") for name, text in message["headers"]}
            else:
                content.extend(message.get("body", b""))

        if self._app is not None:
            await self._app(scope, receive, send)
        answer.body = bytes(content)
        return answer
