"""Which gateways are present on a ledger: each renews a presence with its version, by the clock of Redis.

A presence says nothing about rights. It shows the operator what runs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from core.ledger import names
from core.ledger.client import LedgerClient


@dataclass(frozen=True)
class Presence:
    """One gateway. `gateway_id` is also its identity in the lease of the duties. `name` is that of its machine."""

    gateway_id: str
    name: str
    version: str
    started_ms: int = 0


class Presences:
    """The presences of a ledger. Methods raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient) -> None:
        self._client = client

    async def beat(self, presence: Presence, *, ttl_ms: int) -> int:
        """Write or renew a presence. Returns the number of gateways that are present."""
        facts = orjson.dumps(asdict(presence)).decode()
        return int((await self._run("beat", id=presence.gateway_id, facts=facts, ttl_ms=ttl_ms))["number"])

    async def leave(self, gateway_id: str) -> None:
        await self._run("leave", id=gateway_id)

    async def listed(self) -> list[Presence]:
        """Return the gateways that are present, the one that started first at the front."""
        rows = (await self._run("list"))["gateways"] or []
        found = [Presence(**orjson.loads(facts)) for _, facts in rows if facts]
        return sorted(found, key=lambda one: (one.started_ms, one.gateway_id))

    async def _run(self, action: str, **given: Any) -> dict[str, Any]:
        found, _ = await self._client.run("presence", key=names.SEAL_CHAIN_KEY, args={"action": action, **given})
        return found
