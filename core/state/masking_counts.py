"""What masking did for a tenant, as counts for each day, API key and model: requests, refusals, and finds by type. Also
how many requests its budget refused, of which the ledger has no entries.

Guarantee: none. The counts are data about the texts that were masked, in plain form in Redis. Work with a price is not
counted, because the number of its finds depends on private text. Only numbers, ids of keys, and names of models and
types are stored, never a text.

A gateway sums in memory and writes regularly, so a request costs no call of Redis. An outage or a crash loses what was
not yet written.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

import orjson

from core.errors import BudgetExhausted, LedgerError, PolicyEnforced
from core.ledger.records import TenantState
from core.redis import names
from core.redis.client import LedgerClient

log = logging.getLogger("privacy_gateway.masking")

WRITE_INTERVAL_S = 5.0
DAYS_MAX = 31
FIELDS_MAX = 2048  # of a tenant's day; beyond it, the counts of all keys, models and own types are summed
OTHER = "OTHER"  # the types of own recognisers, beyond FIELDS_MAX
_DAY_MS = 86_400_000
_REQUESTS, _REFUSED, _FIND = "requests", "refused", "find:"
_OVER_BUDGET = (None, None, "over-budget")  # of all keys


@dataclass
class MaskingRow:
    """The counts of one key and model. Both are None beyond `FIELDS_MAX`, and `model` for work without a model."""

    key_id: str | None
    model: str | None
    requests: int = 0
    refused: int = 0
    finds: Counter[str] = field(default_factory=Counter)


class MaskingCounts:
    """Used on the event loop only, without locks."""

    def __init__(self, client: LedgerClient, *, types: Container[str]) -> None:
        """`types`: those of the gateway. Callers name others, as many as they like."""
        self._client = client
        self._types = types
        self._pending: dict[str, Counter[tuple[str | None, str | None, str]]] = defaultdict(Counter)

    def note(
        self,
        tenant: str,
        key_id: str,
        model: str | None,
        *,
        requests: int = 0,
        refused: int = 0,
        finds: Mapping[str, int] | None = None,
    ) -> None:
        """Add counts of a request that has no price."""
        pending = self._pending[tenant]
        pending[key_id, model, _REQUESTS] += requests
        pending[key_id, model, _REFUSED] += refused
        for kind, number in (finds or {}).items():
            pending[key_id, model, f"{_FIND}{kind}"] += number

    def note_refusal(self, tenant: str, key_id: str, error: Exception) -> None:
        """Count a request that ended with `error`, if a policy or the budget refused it."""
        if isinstance(error, PolicyEnforced):
            self.note(tenant, key_id, None, refused=1)
        elif isinstance(error, BudgetExhausted):
            self._pending[tenant][_OVER_BUDGET] += 1

    async def write_regularly(self) -> None:
        """Write until the gateway stops."""
        while True:
            await asyncio.sleep(WRITE_INTERVAL_S)
            await self.write()

    async def write(self) -> None:
        """Write what was noted. What Redis does not take is lost."""
        noted, self._pending = self._pending, defaultdict(Counter)
        for tenant, counts in noted.items():
            try:
                await self._write(tenant, counts)
            except LedgerError as error:
                log.warning("masking-not-counted", extra={"fields": {"tenant": tenant, "code": error.code}})

    async def _write(self, tenant: str, counts: Counter[tuple[str | None, str | None, str]]) -> None:
        key = names.masking_counts_key(tenant, await self._client.now_ms() // _DAY_MS)
        stored, state = await self._client.call_many([("HLEN", key), ("HGET", names.tenant_key(tenant), "state")])
        if state is not None and TenantState(state.decode()).ended:
            return  # of a request that ended after the tenant was closed
        if stored + len(counts) > FIELDS_MAX:
            whole: Counter[tuple[str | None, str | None, str]] = Counter()
            for (_, _, kind), number in counts.items():
                is_known = not kind.startswith(_FIND) or kind.removeprefix(_FIND) in self._types
                whole[None, None, kind if is_known else _FIND + OTHER] += number
            counts = whole
        added = [("HINCRBY", key, orjson.dumps(name), number) for name, number in counts.items() if number]
        await self._client.call_many([*added, ("PEXPIRE", key, (DAYS_MAX + 1) * _DAY_MS)])

    async def remove(self, tenant: str) -> None:
        """Remove the counts of a tenant."""
        self._pending.pop(tenant, None)
        _, keys = await self._keys(tenant, DAYS_MAX + 1)
        await self._client.call_many([("PEXPIRE", key, 0) for key in keys])

    async def read(self, tenant: str, days: int) -> tuple[int, list[MaskingRow]]:
        """Return when the first of the last `days` days begins, and their rows, those with most requests first."""
        first, keys = await self._keys(tenant, days)
        stored = await self._client.call_many([("HGETALL", key) for key in keys])
        rows: dict[tuple[str | None, str | None], MaskingRow] = {}
        for name, number in (pair for each in stored for pair in each.items()):
            key_id, model, kind = orjson.loads(name)
            if kind == _OVER_BUDGET[-1]:
                continue
            row = rows.setdefault((key_id, model), MaskingRow(key_id, model))
            if kind == _REQUESTS:
                row.requests += int(number)
            elif kind == _REFUSED:
                row.refused += int(number)
            else:
                row.finds[kind.removeprefix(_FIND)] += int(number)
        found = sorted(rows.values(), key=lambda row: (-row.requests, row.key_id or "", row.model or ""))
        return first * _DAY_MS, found

    async def over_budget(self, tenant: str, days: int) -> list[int]:
        """Return how many requests the tenant's budget refused on each of the last `days` days, today last."""
        _, keys = await self._keys(tenant, days)
        stored = await self._client.call_many([("HGET", key, orjson.dumps(_OVER_BUDGET)) for key in keys])
        return [int(number or 0) for number in stored]

    async def _keys(self, tenant: str, days: int) -> tuple[int, list[str]]:
        """The first of the last `days` days since 1970, and the key of each day."""
        last = await self._client.now_ms() // _DAY_MS
        first = last - days + 1
        return first, [names.masking_counts_key(tenant, day) for day in range(first, last + 1)]
