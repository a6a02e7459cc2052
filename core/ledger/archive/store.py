"""Writes and reads the objects of one ledger's archive.

An object with more seals may replace one with the same first seal: the newest object grows from round to round.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from core.blob_errors import BlobExists, BlobMissing
from core.blobs.store import BlobStore
from core.ledger.archive.objects import ArchiveObject, Draft, decode, object_key
from core.ledger.keys import MasterKey, Purpose

CACHE_BYTES = 32 * 1024 * 1024
_NAME = re.compile(r"(\d{16})-(\d{16})")


class ArchiveStore:
    """The objects of the ledger with the id `ledger`. Keeps up to CACHE_BYTES of decrypted objects in memory.

    Every method raises StoreUnavailable if the blob store does not answer.
    """

    def __init__(self, blobs: BlobStore, master_key: MasterKey, ledger: str) -> None:
        self._blobs = blobs
        self._key = master_key.derive(Purpose.ARCHIVE)
        self._cached: OrderedDict[int, ArchiveObject] = OrderedDict()
        self.ledger = ledger

    async def put(self, draft: Draft, records: Mapping[str, Mapping[str, Any]], *, replace: bool = False) -> None:
        """Write an object. One that exists has the same seals and entries: it is left as it is, unless `replace`."""
        data = await asyncio.to_thread(lambda: draft.encode(ledger=self.ledger, key=self._key, records=records))
        with suppress(BlobExists):  # the caller reads it back in any case
            key = object_key(self.ledger, draft.first, draft.last)
            await self._blobs.put(key, data, create_only=not replace)

    async def read(self, first: int, last: int) -> ArchiveObject:
        """Read one object from the blob store. Raises BlobMissing, BlobCorrupt."""
        data = await self._blobs.get(object_key(self.ledger, first, last))
        return await asyncio.to_thread(lambda: decode(data, ledger=self.ledger, first=first, last=last, key=self._key))

    async def load(self, first: int, *, fresh: bool = False) -> ArchiveObject:
        """Return the largest object that begins with the seal `first`, from memory if it was read before.

        Raises BlobMissing, BlobCorrupt.
        """
        if not fresh and first in self._cached:
            self._cached.move_to_end(first)
            return self._cached[first]
        lasts = [last async for _, last in self.ranges(first=first, to=first)]
        if not lasts:
            raise BlobMissing
        found = self._cached[first] = await self.read(first, max(lasts))
        while sum(one.nbytes for one in self._cached.values()) > CACHE_BYTES and len(self._cached) > 1:
            self._cached.popitem(last=False)
        return found

    async def ranges(self, *, first: int = 0, to: int | None = None) -> AsyncIterator[tuple[int, int]]:
        """Yield the first and the last seal of each object that begins at `first` or later, but not after `to`."""
        folder = f"archive/{self.ledger}"
        async for key, _ in self._blobs.list(folder, after=f"{folder}/{first:016d}"):
            name = _NAME.fullmatch(key.removeprefix(f"{folder}/"))
            if name is not None:
                if to is not None and int(name[1]) > to:
                    return
                yield int(name[1]), int(name[2])

    async def remove_smaller(self, first: int, last: int) -> None:
        """Remove the objects that begin with the same seal as this one and end before it."""
        ranges = [one async for one in self.ranges(first=first, to=first) if one[1] < last]
        await self._blobs.delete([object_key(self.ledger, *one) for one in ranges])


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
