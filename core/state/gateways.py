"""The gateways on one ledger: which of them are present, and which one has the lease of the duties.

Each gateway renews a presence with its version, by the clock of Redis. A presence says nothing about rights. It shows
the operator what runs.

The duties are sealing, expiry of holds, series and ranks. One gateway does them for all. Guarantee: at any time at most
one process believes that it holds the lease, if no clock runs more than a tenth faster than another. The lease ends by
the clock of Redis. Its holder stops earlier, by its own clock, counted from before the request that renewed it. A
process that was paused in the middle of a round is still kept from sealing: each new holder gets a higher fencing
number, and seal.lua refuses any other number.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from core.redis import names
from core.redis.client import LedgerClient


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


# The holder stops after this share of the lease, so that clocks of different rates do not overlap.
_OWN_SHARE = 0.9


@dataclass(frozen=True)
class LeaseState:
    """Who held the lease at `now_ms`, its fencing number, and when that gateway last completed a sealing round (0: not
    yet). Times are of the Redis clock."""

    holder: str
    fence: str
    sealed_ms: int
    now_ms: int


class DutyLease:
    """The lease of one process, under a random identity. Methods raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient, *, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.holder = secrets.token_hex(16)
        self.ttl_s = ttl_s
        self._client = client
        self._clock = clock
        self._until = 0.0
        self._fence = ""
        self.last: LeaseState | None = None

    @property
    def is_held(self) -> bool:
        return bool(self._fence) and self._clock() < self._until

    @property
    def fence(self) -> str | None:
        """The fencing number, while this process holds the lease."""
        return self._fence if self.is_held else None

    async def take(self, *, sealed_ms: int = 0, force: bool = False) -> bool:
        """Take the lease or renew it. Returns whether this process holds it.

        With `force` it is taken from another holder. Use this only where no other process can serve this ledger.
        """
        asked_at = self._clock()
        found, _ = await self._client.run(
            "lease",
            key=names.SEAL_CHAIN_KEY,
            args={
                "action": "take",
                "holder": self.holder,
                "ttl_ms": int(self.ttl_s * 1000),
                "sealed_ms": sealed_ms,
                "force": force,
            },
        )
        self.last = LeaseState(found["holder"], found["fence"], int(found["sealed_ms"]), int(found["now_ms"]))
        if found["outcome"] != "held":
            self._fence = ""
            return False
        self._fence, self._until = found["fence"], asked_at + self.ttl_s * _OWN_SHARE
        return True

    async def release(self) -> None:
        """End the lease, so that another gateway takes it at its next attempt. Others' leases stay."""
        self._fence = ""
        await self._client.run("lease", key=names.SEAL_CHAIN_KEY, args={"action": "release", "holder": self.holder})


async def lease_holder(client: LedgerClient) -> str | None:
    """Return the identity of the process that holds the lease, or None. Raises LedgerUnavailable."""
    holder = await client.call("HGET", names.DUTIES_KEY, "holder")
    return None if holder is None else holder.decode()
