"""Tenants with releases in the past, in the ledger of a running gateway: what a new gateway has no time to collect."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from gateway_kit import Tenant, Tenants

from core.accounting.events import ACCOUNT_ADJACENCY, Guarantee, PrivacyEvent, Unit
from core.amounts import FEMTO, NANO
from core.ledger.records import Charge, Limit
from core.ledger.transitions import Ledger
from service.config.settings import Settings
from service.ledger_connection import ledger_access

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
_HOLD_TTL_MS = 400 * DAY_MS  # a hold of the past must not expire before it is settled


class Clock:
    """The time of a ledger, in milliseconds, which a test sets."""

    START_MS = now_ms = 20_000 * DAY_MS

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True)
class Past:
    """One release: `ago_ms` before now. `key` is the position of an API key in those of the tenant."""

    ago_ms: int
    epsilon: float
    mechanism: str = "sentence_codes"
    unit: Unit = Unit.SENTENCE
    route: str = "embed/sentdp"
    key: int = 0
    subject: str | None = None
    end: Literal["commit", "cancel", "expire", "open"] = "commit"


def tenant_with_history(
    gateway: Tenants,
    name: str,
    past: Sequence[Past],
    *,
    epsilon: float,
    delta: float = 0.0,
    subject_epsilon: float | None = None,
    keys: int = 1,
) -> Tenant:
    """A tenant of a running gateway that was opened before the first of `past`. Its client uses its first key."""
    now_ms = int(time.time() * 1000)
    at_ms = now_ms - max(one.ago_ms for one in past) - HOUR_MS

    def limits(number: float) -> dict[Unit, Limit]:
        return {unit: Limit(round(number * NANO), round(delta * FEMTO)) for unit in Unit}

    async def seed() -> Tenant:
        nonlocal at_ms
        async with ledger_access(Settings(data_dir=gateway.data_dir)) as parts:
            ledger = Ledger(parts.client, parts.master_key, clock=lambda: at_ms)
            subject_limits = None if subject_epsilon is None else limits(subject_epsilon)
            await ledger.open_tenant(name, limits=limits(epsilon), subject_limits=subject_limits)
            roles = {"roles": ["read", "release", "admin"]}
            made = [gateway.admin.post(f"/admin/tenants/{name}/keys", json=roles).json() for _ in range(keys)]
            for one in sorted(past, key=lambda one: -one.ago_ms):
                at_ms = now_ms - one.ago_ms
                price = (ACCOUNT_ADJACENCY[one.unit], Guarantee.PURE_DP, round(one.epsilon * NANO))
                charge = Charge(PrivacyEvent(one.mechanism, "pure", one.unit, *price), one.subject)
                asked = {"key_id": made[one.key]["key_id"], "route": one.route, "hold_ttl_ms": _HOLD_TTL_MS}
                hold = await ledger.reserve(name, [charge], **asked)
                if one.end == "commit":
                    await ledger.commit(name, hold.release_id)
                elif one.end == "cancel":
                    await ledger.cancel(name, hold.release_id, reason="client-disconnected")
                elif one.end == "expire":
                    await ledger.expire(name, hold.release_id, reason="worker-lost")
        return Tenant(name, made[0]["key"], gateway.client(made[0]["key"]))

    with ThreadPoolExecutor(1) as thread:  # the caller's may run a loop already, as a browser's driver does
        return thread.submit(asyncio.run, seed()).result()
