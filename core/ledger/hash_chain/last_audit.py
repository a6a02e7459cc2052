"""The result of the last audit, stored in Redis under a MAC, so that a gateway can show it."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import orjson

from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.audit import LedgerAudit
from core.ledger.keys import MasterKey, Purpose

_LISTED_MAX = 1000


@dataclass(frozen=True)
class LastAudit:
    """`chain_ok` is about the seals, `faulty` lists up to 1,000 tenants whose journal or accounts differ."""

    at_ms: int
    ok: bool
    chain_ok: bool
    seals: int
    entries: int
    tenants: int
    faulty: tuple[str, ...]

    def ok_for(self, tenant: str) -> bool:
        """Whether the chain and this tenant had no fault. A tenant that was opened later had none."""
        return self.chain_ok and tenant not in self.faulty and (self.ok or len(self.faulty) < _LISTED_MAX)


async def store_audit(client: LedgerClient, master_key: MasterKey, audit: LedgerAudit) -> None:
    """Store the result of an audit that has just ended, in place of the one before. Raises LedgerUnavailable."""
    body = orjson.dumps(
        {
            "at_ms": await client.now_ms(),
            "ok": audit.ok,
            "chain_ok": not audit.faults,
            "seals": audit.seals,
            "entries": sum(tenant.entries for tenant in audit.tenants),
            "tenants": len(audit.tenants),
            "faulty": [tenant.tenant for tenant in audit.tenants if not tenant.ok][:_LISTED_MAX],
        }
    )
    mac = master_key.mac(Purpose.AUDIT, body)
    await client.call("SET", names.LAST_AUDIT_KEY, mac.encode() + body)


async def last_audit(client: LedgerClient, master_key: MasterKey) -> LastAudit | None:
    """Return the result of the last audit; None if there was none, or if what is stored is not genuine."""
    stored = await client.call("GET", names.LAST_AUDIT_KEY) or b""
    mac, body = stored[:64], stored[64:]
    if not hmac.compare_digest(master_key.mac(Purpose.AUDIT, body).encode(), mac):
        return None
    found = orjson.loads(body)
    return LastAudit(**{**found, "faulty": tuple(found["faulty"])})
