"""The epoch: the number of the last seal that this gateway has seen, stored outside Redis.

Redis cannot detect that its own data is an older copy, but a comparison with the epoch can. The epoch file contains no
secret. It protects only as far as its storage does: restoring the file together with the Redis data is not detected.

The blob store has epochs too, so that a gateway without an epoch file, such as a new pod, also notices an older Redis.
Guarantee: an epoch that was stored is found by every gateway with this store, until a newer one replaces it. Each epoch
is a blob of its own that is created once and never changed. It has a MAC under a key that is not in the store. One that
is not genuine is rejected, not ignored. Whoever can delete blobs can hide an epoch: give the bucket an object lock if
it offers one.
"""

import contextlib
import fcntl
import hmac
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from core.blobs.store import BlobStore
from core.errors import BlobExists, BlobMissing, LedgerNotTrusted, LedgerUnavailable
from core.files.disk import write_secret
from core.ledger.hash_chain.chain import Seal, SealId, seal_entry
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import Call

# Whether the archived chain leads from a seal to a later one. Reads Redis through the given call.
Continues = Callable[[SealId, Seal, Call], Awaitable[bool]]
_ADVICE = "was an old copy restored? see docs/operating/ledger.md"


@dataclass(frozen=True)
class Epoch:
    """The last seal seen, of the ledger with this id."""

    ledger: str
    seal: SealId


class EpochFile:
    """JSON `{"ledger", "epoch", "mac"}`. It is replaced atomically, so a crash leaves the old file or the new one.

    Several processes may share the file: an epoch is never replaced by an earlier one of the same ledger.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Epoch | None:
        """Return the epoch, or None if there is no file.

        Raises LedgerUnavailable if the file cannot be opened, which may pass: the process may have too many open files.
        Raises LedgerNotTrusted if it contains no epoch.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerUnavailable(f"The epoch file {self.path} cannot be opened.") from error
        try:
            found = orjson.loads(content)
            return Epoch(str(found["ledger"]), SealId(int(found["epoch"]), str(found["mac"])))
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerNotTrusted(f"The epoch file {self.path} cannot be read.") from error

    def write(self, epoch: Epoch) -> None:
        """Write the file durably, unless it has a later epoch. Raises LedgerUnavailable if it cannot be written."""
        content = orjson.dumps({"ledger": epoch.ledger, "epoch": epoch.seal.n, "mac": epoch.seal.mac}) + b"\n"
        try:
            with self._turn():
                if not self._has_later(epoch):
                    write_secret(self.path, content, replace=True)
        except OSError as error:
            raise LedgerUnavailable(
                f"The epoch file {self.path} cannot be written, or is not a regular file."
            ) from error

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One process at a time compares and writes. The lock is on the folder, because the file is replaced."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _has_later(self, epoch: Epoch) -> bool:
        try:
            found = self.read()
        except LedgerNotTrusted:  # the next start would refuse the file
            return False
        return found is not None and found.ledger == epoch.ledger and found.seal.n > epoch.seal.n


async def verify_epoch(call: Call, epoch: Epoch, master_key: MasterKey, continues: Continues | None = None) -> None:
    """Reject a Redis that does not continue from `epoch`. Reads through `call` only, which may be one connection.

    Redis must have the epoch's seal with the epoch's MAC. If that number is missing, the seal that follows must be an
    operator's acceptance of a restore, or `continues`, which reads the archive, must lead from the one to the other.
    Raises LedgerNotTrusted.
    """
    ledger = await call("GET", names.LEDGER_ID_KEY)
    if ledger is None:
        raise LedgerNotTrusted(
            f"Redis holds no ledger, and this gateway has seen seal {epoch.seal.n} of one; {_ADVICE}"
        )
    if ledger != epoch.ledger.encode():
        raise LedgerNotTrusted(
            f"Redis holds the ledger {ledger.decode()[:32]}, but the epoch file belongs to {epoch.ledger}; "
            "does REDIS_URL or EPOCH_FILE name the wrong one? see docs/operating/ledger.md"
        )
    found = await call("XRANGE", names.SEAL_CHAIN_KEY, f"{epoch.seal.n}-0", "+", "COUNT", 1)
    if not found:
        raise LedgerNotTrusted(
            f"Redis holds an older state than this gateway has seen (seal {epoch.seal.n} is missing); {_ADVICE}"
        )
    seal = seal_entry(found[0], master_key)
    if seal.id == epoch.seal:
        return
    if seal.id.n == epoch.seal.n:
        raise LedgerNotTrusted(f"Redis holds another history than this gateway has seen (seal {seal.id.n}); {_ADVICE}")
    if seal.restored is not None and seal.previous.n < epoch.seal.n:
        return
    if continues is None or not await continues(epoch.seal, seal, call):
        raise LedgerNotTrusted(f"Seal {epoch.seal.n} of the ledger is missing; {_ADVICE}")


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
