"""Which seal contains an entry, from an index that seal.lua writes, or from the object of an archived entry.

The index is not authenticated. A seal that it names is shown to a reader of the journal; the audit and the export read
the seals themselves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from core.ledger import names
from core.ledger.archive.objects import TenantPart
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient


class SealPlaces:
    """Finds the seals of one tenant's entries."""

    def __init__(self, client: LedgerClient, tenant: str, archive: LedgerArchive | None = None) -> None:
        self._client = client
        self._tenant = tenant
        self._archive = archive

    async def of(self, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return the number of the seal of each entry. None: not sealed yet."""
        if not numbers:
            return {}
        key = names.segments_key(self._tenant)
        # One read covers entries that are near each other. An entry far from the others takes one of its own.
        rows = await self._client.call("ZRANGEBYSCORE", key, min(numbers), "+inf", "LIMIT", 0, len(numbers))
        found = self._among(numbers, rows)
        found |= await self._archived([number for number in numbers if found[number] is None])
        # A read that was not cut off by its limit has found all that there are.
        left = [number for number in numbers if found[number] is None] if len(rows) == len(numbers) else []
        single = await self._client.call_many([("ZRANGEBYSCORE", key, n, "+inf", "LIMIT", 0, 1) for n in left])
        return found | self._among(left, [row for rows in single for row in rows])

    async def _archived(self, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return the seals of archived entries, which their objects name. The archive has the first entries."""
        found: dict[int, int | None] = {}
        archived: TenantPart | None = None
        for number in sorted(numbers) if self._archive is not None else ():
            if self._archive is not None and (archived is None or number > archived.last):
                archived = await self._archive.part_at(self._tenant, number)
                if archived is None:
                    break
            found[number] = archived.seal_of(number) if archived is not None else None
        return found

    @staticmethod
    def _among(numbers: Sequence[int], rows: Sequence[bytes]) -> dict[int, int | None]:
        segments = sorted((*map(int, row.split(b":")),) for row in rows)
        lasts = [last for _, _, last in segments]
        found: dict[int, int | None] = {}
        for number in numbers:
            at = bisect_left(lasts, number)
            found[number] = segments[at][0] if at < len(segments) and segments[at][1] <= number else None
        return found
