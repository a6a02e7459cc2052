"""Where an audit reads the history: archived entries from the archive, the others from Redis.

Guarantee: an archiver that runs meanwhile in another process causes no fault. What it has removed from Redis since the
audit began is read from the archive.

What is in both places is compared. What cannot be read from the archive is reported as a fault, in a fixed sentence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from core.blob_errors import BlobCorrupt, BlobMissing
from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.archive.reader import LedgerArchive, entries_of
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.chain import CHAIN_BATCH, RawEntry, SealChain, seal_entry
from core.ledger.keys import MasterKey
from core.ledger.pages import ENTRY_BATCH, entry_number, first_in_redis

Batch = Sequence[RawEntry] | str  # a text is a fault


class HistorySource:
    """Reads one ledger. A text among the results is a fault. Raises StoreUnavailable, LedgerUnavailable.

    `archived` has the last archived entry of each tenant, and `chain_end` the last archived seal. Both may be earlier
    than those of now.
    """

    def __init__(
        self,
        client: LedgerClient,
        archive: LedgerArchive | None,
        archived: dict[str, int] | None = None,
        chain_end: int = 0,
    ) -> None:
        self._client = client
        self._archive = archive
        self._archived = archived or {}
        self._chain_end = chain_end
        self._first_in_redis: dict[str, int] = {}

    async def raw_seals(self, *, after: int = 0) -> AsyncIterator[RawEntry | str]:
        """Yield every seal with a number after `after` as stored, oldest first."""
        async for batch in self._read(CHAIN, after + 1, None, self._chain_end, CHAIN_BATCH):
            if isinstance(batch, str):
                yield batch
            else:
                for raw in batch:
                    yield raw

    async def entries(self, tenant: str, first: int, last: int) -> AsyncIterator[Batch]:
        """Yield the entries of a tenant from `first` to `last`, in batches."""
        async for batch in self._read(tenant, first, last, self._archived.get(tenant, 0), ENTRY_BATCH):
            yield batch

    async def _read(self, stream: str, first: int, last: int | None, archived: int, count: int) -> AsyncIterator[Batch]:
        end = archived if last is None else min(last, archived)
        try:
            if first <= end:
                async for batch in self._both(stream, first, end):
                    yield batch
        except (BlobMissing, BlobCorrupt, LedgerNotTrusted) as error:
            yield _fault(error, first, end)
        after = max(first - 1, end)
        try:
            async for later in entries_of(self._client, self._archive, stream, after=after, last=last, count=count):
                yield later
        except (BlobMissing, BlobCorrupt, LedgerNotTrusted) as error:
            yield _fault(error, after + 1, last)

    async def _both(self, stream: str, first: int, last: int) -> AsyncIterator[Batch]:
        """Yield archived entries, compared with those that are also in Redis."""
        if self._archive is None:
            yield f"entries {first} to {last} are archived, and no archive was given"
            return
        async for batch in self._archive.entries(stream, after=first - 1, last=last):
            yield batch
            if not await self._redis_agrees(stream, batch, last):
                low, high = entry_number(batch[0]), entry_number(batch[-1])
                yield f"entries {low} to {high} in Redis are not the archived ones"

    async def _redis_agrees(self, stream: str, batch: Sequence[RawEntry], last: int) -> bool:
        """Whether Redis has the same entries, except those that were removed at its beginning, also meanwhile."""
        key = names.SEAL_CHAIN_KEY if stream == CHAIN else names.journal_key(stream)
        border = self._first_in_redis.get(stream)
        low, high = entry_number(batch[0]), entry_number(batch[-1])
        while border is None or border <= high:
            if border is not None:
                found = await self._client.call("XRANGE", key, max(low, border), high)
                if found == [raw for raw in batch if entry_number(raw) >= border]:
                    return True
            known, border = border, await first_in_redis(self._client, key) or last + 1
            self._first_in_redis[stream] = border
            if border == known:
                return False  # nothing was removed, so these are others
        return True

    async def index_faults(
        self, recorded: Sequence[ArchivedRange], *, last_seal: int, master_key: MasterKey
    ) -> list[tuple[str, str]]:
        """Return what differs between the ranges that seals record and the index in Redis, by stream.

        `recorded` are those of the seals up to number `last_seal`. The index may also have those of later seals.
        """
        before = _by_stream(recorded)
        rows: dict[str, list[ArchivedRange]] = {}
        faults: list[tuple[str, str]] = []
        for stream in sorted({*before, *self._archived}):
            try:
                rows[stream] = [] if self._archive is None else [one async for one in self._archive.ranges(stream)]
            except LedgerNotTrusted as error:
                faults.append((stream, error.detail))
        # Read after the index: one script writes a seal and its rows of the index.
        every = _by_stream([*recorded, *await self._recorded_after(last_seal, master_key)])
        for stream, found in rows.items():
            expected = every.get(stream, [])
            if found != expected[: max(len(found), len(before.get(stream, [])))]:
                faults.append((stream, "the index of the archive does not have the ranges that the seals record"))
        return faults

    async def _recorded_after(self, last_seal: int, master_key: MasterKey) -> list[ArchivedRange]:
        ranges: list[ArchivedRange] = []
        async for raw in self.raw_seals(after=last_seal):
            try:
                ranges += () if isinstance(raw, str) else seal_entry(raw, master_key).archived.ranges
            except (LedgerNotTrusted, ValueError, KeyError, TypeError):
                break  # what is not genuine records nothing
        return ranges


def _by_stream(ranges: Sequence[ArchivedRange]) -> dict[str, list[ArchivedRange]]:
    found: dict[str, list[ArchivedRange]] = {}
    for range_ in ranges:
        found.setdefault(range_.stream, []).append(range_)
    return found


def _fault(error: Exception, first: int, last: int | None) -> str:
    if isinstance(error, LedgerNotTrusted):
        return error.detail
    to = "the end" if last is None else last
    what = "is missing" if isinstance(error, BlobMissing) else "is not the one that was written"
    return f"an object of the archive with entries from {first} to {to} {what}"


async def history_source(client: LedgerClient, chain: SealChain, archive: LedgerArchive | None) -> HistorySource:
    """Return the source for the ledger in Redis. How far its archive reaches is read from the last seal."""
    try:
        head: Any = await chain.head()
    except (LedgerNotTrusted, ValueError, KeyError, TypeError):
        return HistorySource(client, archive)  # the end of the chain is reported by the audit
    archived = {tenant: one.archived for tenant, one in head.tenants.items() if one.archived}
    return HistorySource(client, archive, archived, head.seal.archived.chain.n if head.seal else 0)
