"""The epoch in a blob store: a gateway without an epoch file, such as a new pod, also notices an older Redis.

Guarantee: an epoch that was stored is found by every gateway with this store, until a newer one replaces it. Each epoch
is a blob of its own that is created once and never changed. It has a MAC under a key that is not in the store. One that
is not genuine is rejected, not ignored. Whoever can delete blobs can hide an epoch: give the bucket an object lock if
it offers one.
"""

from __future__ import annotations

import contextlib
import hmac

import orjson

from core.blob_errors import BlobExists, BlobMissing
from core.blobs.store import BlobStore
from core.errors import LedgerNotTrusted
from core.ledger.hash_chain.chain import SealId
from core.ledger.hash_chain.epoch import Epoch
from core.ledger.keys import MasterKey, Purpose

FOLDER = "epoch"
KEPT = 8  # older ones are deleted
_DIGITS = 16


class EpochStore:
    """Reads and writes the epochs of one ledger. Methods raise StoreUnavailable."""

    def __init__(self, store: BlobStore, master_key: MasterKey) -> None:
        self._store = store
        self._master_key = master_key

    async def read(self) -> Epoch | None:
        """Return the newest epoch, None if there is none. Raises LedgerNotTrusted for one that is not genuine."""
        for key in reversed(await self._keys()):
            try:
                content = await self._store.get(key)
            except BlobMissing:  # another gateway has deleted it, because there are newer ones
                continue
            try:
                found = orjson.loads(content)
                epoch = Epoch(str(found["ledger"]), SealId(int(found["epoch"]), str(found["mac"])))
                is_genuine = hmac.compare_digest(str(found["signature"]), self._signature(epoch))
            except (ValueError, KeyError, TypeError) as error:
                raise LedgerNotTrusted("An epoch in the blob store cannot be read.") from error
            if not is_genuine or key != self._key(epoch.seal.n):
                raise LedgerNotTrusted(
                    "An epoch in the blob store is not genuine, or is of another ledger's master key."
                )
            return epoch
        return None

    async def write(self, epoch: Epoch) -> None:
        """Store an epoch durably, and delete old ones."""
        content = {
            "ledger": epoch.ledger,
            "epoch": epoch.seal.n,
            "mac": epoch.seal.mac,
            "signature": self._signature(epoch),
        }
        with contextlib.suppress(BlobExists):  # another gateway has stored the same seal
            await self._store.put(self._key(epoch.seal.n), orjson.dumps(content), create_only=True)
        old = (await self._keys())[:-KEPT]
        if old:
            await self._store.delete(old)

    async def _keys(self) -> list[str]:
        return [key async for key, _ in self._store.list(FOLDER)]

    def _signature(self, epoch: Epoch) -> str:
        parts = (epoch.ledger, str(epoch.seal.n), epoch.seal.mac)
        return self._master_key.mac(Purpose.EPOCH, *(part.encode() for part in parts))

    def _key(self, n: int) -> str:
        return f"{FOLDER}/{n:0{_DIGITS}d}"
