"""Where an audit reads the history: archived entries from the archive, the others from Redis.

What is in both is compared. What cannot be read from the archive is reported as a fault, in a fixed sentence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from core.blob_errors import BlobCorrupt, BlobMissing
from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.chain import CHAIN_BATCH, RawEntry, SealChain
from core.ledger.pages import entry_number, first_in_redis, raw_entries


class HistorySource:
    """Reads one ledger. A text among the results is a fault. Raises StoreUnavailable, LedgerUnavailable.

    `archived` has the last archived entry of each tenant, and `chain_end` the last archived seal.
    """

    def __init__(
        self, client: LedgerClient, archive: LedgerArchive | None, archived: dict[str, int], chain_end: int
    ) -> None:
        self._client = client
        self._archive = archive
        self._archived = archived
        self._chain_end = chain_end
        self._first_in_redis: dict[str, int] = {}

    async def raw_seals(self) -> AsyncIterator[RawEntry | str]:
        """Yield every seal as stored, oldest first."""
        if self._chain_end:
            async for seal in self._both(CHAIN, names.SEAL_CHAIN_KEY, 1, self._chain_end):
                if isinstance(seal, str):
                    yield seal
                else:
                    for raw in seal:
                        yield raw
        start = f"{self._chain_end + 1}-0"
        while found := await self._client.call("XRANGE", names.SEAL_CHAIN_KEY, start, "+", "COUNT", CHAIN_BATCH):
            for raw in found:
                yield raw
            start = f"({found[-1][0].decode()}"

    async def entries(self, tenant: str, first: int, last: int) -> AsyncIterator[list[RawEntry] | str]:
        """Yield the entries of a tenant from `first` to `last`, in batches."""
        end = min(last, self._archived.get(tenant, 0))
        if first <= end:
            async for batch in self._both(tenant, names.journal_key(tenant), first, end):
                yield batch
        async for entries in raw_entries(self._client, tenant, after=max(first - 1, end), last=last):
            yield entries

    async def _both(self, stream: str, key: str, first: int, last: int) -> AsyncIterator[list[RawEntry] | str]:
        """Yield archived entries, compared with those that are also in Redis."""
        if stream not in self._first_in_redis:
            self._first_in_redis[stream] = await first_in_redis(self._client, key) or last + 1
        border = self._first_in_redis[stream]
        if self._archive is None:
            yield f"entries {first} to {last} are archived, and no archive was given"
            return
        try:
            async for batch in self._archive.entries(stream, after=first - 1, last=last):
                yield batch
                low, high = entry_number(batch[0]), entry_number(batch[-1])
                if high >= border:
                    found = await self._client.call("XRANGE", key, max(low, border), high)
                    if found != [raw for raw in batch if entry_number(raw) >= border]:
                        yield f"entries {low} to {high} in Redis are not the archived ones"
        except BlobMissing:
            yield f"an object of the archive with entries from {first} to {last} is missing"
        except BlobCorrupt:
            yield f"an object of the archive with entries from {first} to {last} is not the one that was written"
        except LedgerNotTrusted as error:
            yield error.detail

    async def index_faults(self, recorded: Sequence[ArchivedRange]) -> list[tuple[str, str]]:
        """Return what differs between the ranges that the seals record and the index in Redis, by stream."""
        by_stream: dict[str, list[ArchivedRange]] = {}
        for range_ in recorded:
            by_stream.setdefault(range_.stream, []).append(range_)
        faults: list[tuple[str, str]] = []
        for stream in sorted({*by_stream, *self._archived}):
            try:
                rows = [] if self._archive is None else [range_ async for range_ in self._archive.ranges(stream)]
            except LedgerNotTrusted as error:
                faults.append((stream, error.detail))
                continue
            if rows != by_stream.get(stream, []):
                faults.append((stream, "the index of the archive does not have the ranges that the seals record"))
        return faults


async def history_source(client: LedgerClient, chain: SealChain, archive: LedgerArchive | None) -> HistorySource:
    """Return the source for the ledger in Redis. How far its archive reaches is read from the last seal."""
    try:
        head: Any = await chain.head()
    except (LedgerNotTrusted, ValueError, KeyError, TypeError):
        return HistorySource(client, archive, {}, 0)  # the end of the chain is reported by the audit
    archived = {tenant: one.archived for tenant, one in head.tenants.items() if one.archived}
    return HistorySource(client, archive, archived, head.seal.archived.chain.n if head.seal else 0)
