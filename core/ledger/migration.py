"""Brings a ledger of an earlier version up to date, once. Safe to repeat and to interrupt.

Version 1: accounts under metric adjacency keep the basic arm alone. Earlier versions gave them Renyi and square arms,
which are no bound beyond distance 1 (`core.accounting.filters`), so an account may have counted more than its limit by
then. It admits nothing more; the journal has an entry `limit` for it, and the audit names it.
"""

from __future__ import annotations

from core.accounting.events import ACCOUNT_ADJACENCY, Adjacency, Unit
from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.client import LedgerClient

VERSION = b"1"
_BATCH = 200


async def migrate(client: LedgerClient) -> int:
    """Migrate every tenant; returns how many limits were lowered.

    Raises LedgerUnavailable, also for a ledger that a newer version of the gateway has brought up to date.
    """
    found = await client.call("GET", names.VERSION_KEY)
    if found == VERSION:
        return 0
    if found is not None:
        raise LedgerUnavailable("A newer version of the gateway has brought this ledger up to date.")
    lowered = 0
    for tenant in await client.call("SMEMBERS", names.TENANTS_KEY):
        for unit in Unit:
            if ACCOUNT_ADJACENCY[unit] is Adjacency.METRIC:
                lowered += await _basic_only(client, tenant.decode(), unit)
    await client.call("SET", names.VERSION_KEY, VERSION)
    return lowered


async def _basic_only(client: LedgerClient, tenant: str, unit: Unit) -> int:
    key, lowered = names.tenant_key(tenant), 0
    start, end = f"[{unit.value}", f"({unit.value};"  # the unit's own account and those of subjects, `unit:...`
    while True:
        found = await client.call("ZRANGEBYLEX", names.accounts_key(tenant), start, end, "LIMIT", 0, _BATCH)
        listed = [name.decode() for name in found]
        answer, _ = await client.run("basic_only", key=key, args={"names": listed, "unit": unit.value})
        lowered += int(answer["accounts"])
        if len(found) < _BATCH:
            return lowered
        start = f"({listed[-1]}"
