"""Where an audit reads the history: from Redis, and from the archive what Redis no longer has.

Guarantee: an archiver that runs meanwhile in any process causes no fault. What cannot be read from the archive is
reported as a fault, in a fixed sentence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from core.blob_errors import BlobCorrupt, BlobMissing
from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import CHAIN_BATCH, RawEntry, Seal, SealId
from core.ledger.pages import ENTRY_BATCH, EntryArchive, entries_of

Batch = Sequence[RawEntry] | str  # a text is a fault
Call = Callable[..., Awaitable[Any]]  # one Redis command


class HistoryArchive(EntryArchive, Protocol):
    """What an audit needs of the archive."""

    async def continues(self, known: SealId, next_: Seal, call: Call) -> bool:
        """Whether the archived chain leads from the seal `known` to `next_`."""


class HistorySource:
    """Reads one ledger. A text among the results is a fault. Raises StoreUnavailable, LedgerUnavailable."""

    def __init__(self, client: LedgerClient, archive: EntryArchive | None) -> None:
        self._client = client
        self._archive = archive

    async def seals(self) -> AsyncIterator[RawEntry | str]:
        """Yield every seal as stored, oldest first."""
        async for batch in self._read(names.CHAIN, 1, None, CHAIN_BATCH):
            if isinstance(batch, str):
                yield batch
            else:
                for raw in batch:
                    yield raw

    async def entries(self, tenant: str, first: int, last: int) -> AsyncIterator[Batch]:
        """Yield the entries of a tenant from `first` to `last`, in batches."""
        async for batch in self._read(tenant, first, last, ENTRY_BATCH):
            yield batch

    async def _read(self, stream: str, first: int, last: int | None, count: int) -> AsyncIterator[Batch]:
        try:
            async for batch in entries_of(self._client, self._archive, stream, after=first - 1, last=last, count=count):
                yield batch
        except (BlobMissing, BlobCorrupt, LedgerNotTrusted) as error:
            yield _fault(error, first, last)


def _fault(error: Exception, first: int, last: int | None) -> str:
    if isinstance(error, LedgerNotTrusted):
        return error.detail
    to = "the end" if last is None else last
    what = "is missing" if isinstance(error, BlobMissing) else "is not the one that was written"
    return f"an object of the archive with entries from {first} to {to} {what}"
