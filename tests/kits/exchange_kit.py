"""A request over ASGI whose body is sent, and whose answer is read, step by step."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from inprocess_kit import Gateway
from starlette.types import Message

from core.state.jobs import JobRecord, JobStore

HANG_S = 300.0
LEFT = b"the client has left"


class Exchange:
    """One request over ASGI whose body and answer stay open.

    `waits` is set once the gateway waits for more of the body than was sent, and `began` by the first part of the
    answer. Unless it `reads`, that part is taken once `read` is set. `leave` ends the connection.
    """

    def __init__(
        self,
        gateway: Gateway,
        key: str,
        method: str,
        path: str,
        *,
        media_type: str = "",
        size: int | None = None,
        instead: Mapping[str, str] | None = None,
    ) -> None:
        """`size`: the length of the body that the head announces. `instead`: the headers in place of the key."""
        self.waits = asyncio.Event()
        self.began = asyncio.Event()
        self.messages: list[Message] = []
        self.body: asyncio.Queue[bytes | None] = asyncio.Queue()  # None: the end
        self.reads = True
        self.read = asyncio.Event()
        given = {"authorization": f"Bearer {key}"} if instead is None else instead
        headers = [(name.encode(), value.encode()) for name, value in given.items()]
        if media_type:
            headers.append((b"content-type", media_type.encode()))
        if size is not None:
            headers.append((b"content-length", str(size).encode()))
        path, _, query = path.partition("?")
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "state": {}}
        scope |= {"raw_path": path.encode(), "query_string": query.encode(), "http_version": "1.1", "scheme": "http"}
        scope |= {"client": ("192.0.2.1", 1)}
        self.task = asyncio.create_task(gateway.app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if self.body.empty():
            self.waits.set()
        part = await self.body.get()
        if part == LEFT:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def _send(self, message: Message) -> None:
        self.messages.append(message)
        if message["type"] == "http.response.body" and message.get("body"):
            self.began.set()
            if not self.reads:
                await self.read.wait()

    async def begun(self) -> Exchange:
        """The exchange, once the first part of its answer has come."""
        await asyncio.wait_for(self.began.wait(), HANG_S)
        return self

    def leave(self) -> None:
        self.body.put_nowait(LEFT)

    async def ended(self) -> bytes:
        await asyncio.wait_for(self.task, HANG_S)
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def is_complete(self) -> bool:
        return not self.messages[-1].get("more_body", True)


def of_documents(gateway: Gateway, key: str, *lines: bytes) -> Exchange:
    """A stream of documents, of which these have been sent."""
    exchange = Exchange(gateway, key, "POST", "/sanitize/batch", media_type="application/x-ndjson")
    for line in lines:
        exchange.body.put_nowait(line)
    return exchange


async def waiting_job(store: JobStore, owner: str) -> JobRecord:
    """A job without files."""
    terms = {"kind": "domain", "label": "law", "claim": "c", "open_max": 8, "state": "s", "size": 0}
    return (await store.create(owner, secrets.token_hex(16), **terms))[0]


async def kept_job(gateway: Gateway, owner: str, patch: Any) -> JobRecord:
    """A job that stays as it is, though it has no files, for which a runner would end it."""
    store = gateway.service.jobs.store
    job = await waiting_job(store, owner)

    async def unchanged(*_: Any) -> JobRecord:
        return job

    patch.setattr(store, "get", unchanged)
    return job
