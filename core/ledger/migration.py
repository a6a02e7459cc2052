"""The migrations of the ledger. Each can be repeated and interrupted safely (`core.ledger.schema`).

Schema 1: accounts under metric adjacency keep only the basic arm. Earlier versions gave them Renyi and square arms.
Those arms are no bound beyond distance 1 (`core.accounting.filters`), so such an account may already have counted more
than its limit. It then admits no further release, the journal has an entry `limit` for it, and the audit lists it.

Schema 2: the journal has the amounts of subjects' accounts in a field of their own, and only in entries that spend
them. Older entries and open holds remain valid, so nothing is converted. The number keeps earlier versions from opening
a ledger that they would report as changed.
"""

from __future__ import annotations

from core.accounting.events import ACCOUNT_ADJACENCY, Adjacency, Unit
from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.schema import Migration, Schema

_BATCH = 200


async def _basic_only_everywhere(client: LedgerClient) -> int:
    """Returns the number of lowered limits."""
    lowered = 0
    for tenant in await client.call("SMEMBERS", names.TENANTS_KEY):
        for unit in Unit:
            if ACCOUNT_ADJACENCY[unit] is Adjacency.METRIC:
                lowered += await _basic_only(client, tenant.decode(), unit)
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


# common.lua has the number of the last one, too: a script refuses the tenant of a newer schema. A migration that other
# versions must not serve beside writes its number to the field `schema` of each tenant's record.
SCHEMA = Schema([Migration(1, _basic_only_everywhere), Migration(2)])
