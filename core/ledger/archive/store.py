"""Writes and reads the objects of one ledger's archive."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from core.blob_errors import BlobExists
from core.blobs.store import BlobStore
from core.ledger.archive.objects import ArchiveObject, SealRow, decode, encode
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange, blob_folder
from core.ledger.hash_chain.chain import RawEntry
from core.ledger.keys import MasterKey, Purpose

CACHE_BYTES = 32 * 1024 * 1024
_NAME = re.compile(r"(\d{16})-(\d{16})-([0-9a-f]{64})")


class ArchiveStore:
    """The objects of the ledger with the id `ledger`. Keeps up to `cache_bytes_max` of decrypted objects in memory.

    Every method raises StoreUnavailable if the blob store does not answer.
    """

    def __init__(
        self, blobs: BlobStore, master_key: MasterKey, ledger: str, *, cache_bytes_max: int = CACHE_BYTES
    ) -> None:
        self._blobs = blobs
        self._key = master_key.derive(Purpose.ARCHIVE)
        self._cache_bytes_max = cache_bytes_max
        self._cached: OrderedDict[str, ArchiveObject] = OrderedDict()
        self._cached_bytes = 0
        self.ledger = ledger

    async def put(
        self,
        range_: ArchivedRange,
        entries: Sequence[RawEntry],
        *,
        seals: Sequence[SealRow] = (),
        record: Mapping[str, Any] | None = None,
        replace: bool = False,
    ) -> None:
        """Write the object. Its key names its content, so one that exists has these entries: it is left as it is,
        unless `replace`, which repairs a damaged one."""
        data = await asyncio.to_thread(
            lambda: encode(range_, entries, ledger=self.ledger, key=self._key, seals=seals, record=record)
        )
        with suppress(BlobExists):  # the caller reads it back in any case
            await self._blobs.put(range_.blob_key(self.ledger), data, create_only=not replace)

    async def read(self, range_: ArchivedRange, *, check: bool = False) -> ArchiveObject:
        """Read the object from the blob store. `check` also compares every entry with the digest of the range.

        Raises BlobMissing, BlobCorrupt.
        """
        key = range_.blob_key(self.ledger)
        data = await self._blobs.get(key)
        found = await asyncio.to_thread(lambda: decode(data, blob_key=key, ledger=self.ledger, key=self._key))
        if check:
            await asyncio.to_thread(found.check)
        return found

    async def load(self, range_: ArchivedRange) -> ArchiveObject:
        """Return the object, from memory if it was read before. Raises BlobMissing, BlobCorrupt."""
        key = range_.blob_key(self.ledger)
        found = self._cached.get(key)
        if found is None:
            found = await self.read(range_)
            if key not in self._cached:
                self._cached[key] = found
                self._cached_bytes += found.nbytes
                while self._cached_bytes > self._cache_bytes_max and len(self._cached) > 1:
                    _, dropped = self._cached.popitem(last=False)
                    self._cached_bytes -= dropped.nbytes
        else:
            self._cached.move_to_end(key)
        return found

    async def every_range(self) -> AsyncIterator[ArchivedRange | None]:
        """Yield all objects that the blob store has of this ledger; None for a key that is not one of an object."""
        async for key, _ in self._blobs.list(f"archive/{self.ledger}"):
            yield self._range_of(key)

    async def chain_after(self, n: int) -> AsyncIterator[ArchivedRange]:
        """Yield the objects with seals after number `n` that the blob store has."""
        folder = blob_folder(self.ledger, CHAIN)
        async for key, _ in self._blobs.list(folder, after=f"{folder}/{n + 1:016d}"):
            range_ = self._range_of(key)
            if range_ is not None:
                yield range_

    def _range_of(self, key: str) -> ArchivedRange | None:
        *place, last = key.removeprefix(f"archive/{self.ledger}/").split("/")
        name = _NAME.fullmatch(last)
        stream = CHAIN if place == ["chain"] else place[1] if len(place) == 2 and place[0] == "journal" else None
        if name is None or stream is None:
            return None
        return ArchivedRange(stream, int(name[1]), int(name[2]), name[3])

    async def delete(self, ranges: Sequence[ArchivedRange]) -> None:
        """Delete objects that no seal records."""
        await self._blobs.delete([range_.blob_key(self.ledger) for range_ in ranges])


async def ledgers_in(blobs: BlobStore) -> list[str]:
    """Return the ids of the ledgers that have an archive in this blob store."""
    found: list[str] = []
    after: str | None = None
    while True:
        async for key, _ in blobs.list("archive", after=after):
            found.append(key.split("/")[1])
            break
        else:
            return found
        after = f"archive/{found[-1]}/~"  # after all keys of this ledger
