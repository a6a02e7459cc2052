"""Migrates a ledger of an earlier version, once. The migration can be repeated and interrupted safely.

Version 1: accounts under metric adjacency keep only the basic arm. Earlier versions gave them Renyi and square arms.
Those arms are no bound beyond distance 1 (`core.accounting.filters`), so such an account may already have counted more
than its limit. It then admits no further release, the journal has an entry `limit` for it, and the audit lists it.

Version 2: the journal has the amounts of subjects' accounts in a field of their own, and only in entries that spend
them. Older entries and open holds remain valid, so nothing is converted. The number keeps earlier versions from opening
a ledger that they would report as changed.
"""

from __future__ import annotations

from core.accounting.events import ACCOUNT_ADJACENCY, Adjacency, Unit
from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.client import LedgerClient

VERSION = b"2"
_BASIC_ONLY_SINCE = b"1"
_BATCH = 200


async def migrate(client: LedgerClient) -> int:
    """Migrate every tenant. Returns the number of lowered limits.

    Raises LedgerUnavailable, also for a ledger that a newer version of the gateway has migrated.
    """
    found = await client.call("GET", names.VERSION_KEY)
    if found == VERSION:
        return 0
    if found not in (None, _BASIC_ONLY_SINCE):
        raise LedgerUnavailable("A newer version of the gateway has migrated this ledger.")
    lowered = 0
    for tenant in await client.call("SMEMBERS", names.TENANTS_KEY) if found is None else ():
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
