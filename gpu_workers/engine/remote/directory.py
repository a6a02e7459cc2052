"""The directory of worker servers: a page in JSON that lists their addresses, which gateways poll.

A gateway connects to a listed worker with its token and TLS as to any other, and the worker itself reports what it is.
An address that is no longer listed is kept for `MISSING_S`, because a directory that was started again lists workers
only after they have registered. A directory that cannot be reached changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from contextlib import suppress

import httpx

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.engine import Addresses

log = logging.getLogger("privacy_gateway.engine")

POLL_S = 2.0
MISSING_S = 10.0
TOKEN_HEADER = "privacy-gateway-token"  # noqa: S105 - the name of a header
_BYTES_MAX = 1 << 20
_WORKERS_MAX = 4096
_ROLES = frozenset({*map(str, Role), "jobs"})  # the engine's, and that of job runners


class HttpDirectory:
    """The page at `url`, which needs the token."""

    def __init__(self, url: str, access: Access) -> None:
        """Raises ValueError for a URL of another machine without TLS, unless `access` is plain."""
        found = httpx.URL(url)
        if found.scheme not in ("http", "https") or not found.host:
            raise ValueError("the directory of workers is a URL with http or https")
        if found.scheme == "http":
            access.check(f"{found.host}:{found.port or 80}")
        self._url = url
        self._client = httpx.AsyncClient(timeout=5.0, trust_env=False, headers={TOKEN_HEADER: access.token})
        self._listed: dict[tuple[str, str], float] = {}  # when each address was last listed
        self._known: set[tuple[str, str]] | None = None

    async def changed(self) -> Addresses:
        """Poll until the addresses differ from those that were last returned."""
        while True:
            with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
                await self._poll()
            if self._known != self._listed.keys() and self._listed:
                self._known = set(self._listed)
                addresses: defaultdict[str, list[str]] = defaultdict(list)
                for role, address in sorted(self._known):
                    addresses[role].append(address)
                return addresses
            await asyncio.sleep(POLL_S)

    async def close(self) -> None:
        await self._client.aclose()

    async def _poll(self) -> None:
        async with self._client.stream("GET", self._url) as answer:
            answer.raise_for_status()
            content = b""
            async for chunk in answer.aiter_bytes():
                content += chunk
                if len(content) > _BYTES_MAX:
                    raise ValueError("the list of workers is too long")
        now = time.monotonic()
        for worker in json.loads(content)["workers"][:_WORKERS_MAX]:
            with suppress(ValueError, KeyError, TypeError):  # an entry that cannot be used stops no other one
                role, address = worker["role"], str(worker["address"])[:256]
                if role not in _ROLES:
                    continue
                self._listed[role, address] = now
        for entry, at in list(self._listed.items()):
            if now - at > MISSING_S:
                del self._listed[entry]
