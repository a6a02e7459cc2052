"""Which seal contains an entry, from an index that seal.lua writes.

The index is not authenticated. A seal that it names is shown to a reader of the journal; the audit and the export read
the seals themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.ledger import names
from core.ledger.client import LedgerClient


class SealPlaces:
    """Finds the seals of one tenant's entries, in increasing or in decreasing order."""

    def __init__(self, client: LedgerClient, tenant: str) -> None:
        self._client = client
        self._tenant = tenant

    async def of(self, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return the number of the seal of each entry. None: not sealed yet, or sealed by an earlier version."""
        if not numbers:
            return {}
        key = names.segments_key(self._tenant)
        last = max(numbers)
        rows = await self._client.call("ZRANGEBYSCORE", key, min(numbers), last)
        rows += await self._client.call("ZRANGEBYSCORE", key, f"({last}", "+inf", "LIMIT", 0, 1)
        segments = sorted(tuple(map(int, row.split(b":"))) for row in rows)
        return {number: next((n for n, first, end in segments if first <= number <= end), None) for number in numbers}
