"""Writes and reads the objects of a ledger's archive, and finds archived entries and seals by their numbers.

An object has a range of seals, and every entry that they seal. Guarantee: an object is what this ledger wrote under
this key, or BlobCorrupt is raised. AES-256-GCM under a key that is derived from the master key authenticates the
content together with the object's key, which contains the ledger and the range. So a changed, shortened or exchanged
object is never used.

    b"PGA1", nonce (12 bytes), AES-256-GCM of msgpack {"ledger", "seals", "tenants"}

`seals` is zlib of msgpack [seal]. `tenants` has for each tenant `[seals, record, blocks]`: rows `[seal, first, last]`,
the fields of the tenant's record that a restore needs, and blocks `[first, last, from_ms, to_ms, zlib of msgpack
[entries]]` with up to BLOCK_ENTRIES entries. Entries and seals are their id, then the names and values of their fields.
A reader decodes only the blocks that it needs.

An object with more seals may replace one with the same first seal: the newest object grows from round to round. The
index in Redis says which object has an entry: a row for each tenant in each complete object. The index is not
authenticated; the objects are.
"""

import asyncio
import re
import secrets
import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import msgpack
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.blobs.store import BlobStore
from core.errors import BlobCorrupt, BlobExists, BlobMissing, LedgerNotTrusted
from core.ledger.hash_chain.chain import JournalDigest, RawEntry, Seal, SealId, seal_entry
from core.ledger.pages import entry_number
from core.master_key import NONCE_BYTES, MasterKey, Purpose
from core.redis import names
from core.redis.client import Call, LedgerClient

MAGIC = b"PGA1"
BLOCK_ENTRIES = 250

SealRow = tuple[int, int, int]  # a seal, and the first and last entry of the tenant that it contains


def object_key(ledger: str, first: int, last: int) -> str:
    """The key of the object with the seals from `first` to `last`."""
    return f"archive/{ledger}/{first:016d}-{last:016d}"


@dataclass(frozen=True)
class TenantPart:
    """The entries of one tenant in an object. Its blocks stay compressed until they are read."""

    seals: Sequence[SealRow]
    record: Mapping[str, Any]
    blocks: Sequence[tuple[int, int, int, int, bytes]]

    @property
    def first(self) -> int:
        return self.blocks[0][0]

    @property
    def last(self) -> int:
        return self.blocks[-1][1]

    def batches(self, first: int, last: int) -> Iterator[list[RawEntry]]:
        """Yield the entries from `first` to `last`, oldest first, decoding one block at a time."""
        for low, high, *_, packed in self.blocks:
            if low <= last and high >= first:
                yield [raw for raw in _unpacked(packed) if first <= entry_number(raw) <= last]

    def newest(self, first: int, last: int, count: int) -> list[RawEntry]:
        """Return up to `count` entries from `first` to `last`, newest first."""
        found: list[RawEntry] = []
        for low, high, *_, packed in reversed(self.blocks):
            if low <= last and high >= first and len(found) < count:
                found += [raw for raw in reversed(_unpacked(packed)) if first <= entry_number(raw) <= last]
        return found[:count]

    def first_at(self, at_ms: int) -> int | None:
        """Return the number of the first entry at or after a time; None if all are earlier."""
        for _, _, _, to_ms, packed in self.blocks:
            if to_ms >= at_ms:
                return next((entry_number(raw) for raw in _unpacked(packed) if _at_ms(raw) >= at_ms), None)
        return None

    def seal_of(self, number: int) -> int | None:
        """Return the number of the seal that contains an entry."""
        at = bisect_left(self.seals, number, key=lambda row: row[2])
        return self.seals[at][0] if at < len(self.seals) and self.seals[at][1] <= number else None


@dataclass(frozen=True)
class ArchiveObject:
    """One object, decrypted."""

    first: int
    last: int
    tenants: Mapping[str, TenantPart]
    nbytes: int
    _seals: bytes
    _ledger: str

    def raw_seals(self) -> list[RawEntry]:
        return _unpacked(self._seals)

    def checked_seals(self, master_key: MasterKey) -> list[Seal]:
        """Return the seals, after comparing every entry with them. Raises BlobCorrupt."""
        try:
            seals = [seal_entry(raw, master_key) for raw in self.raw_seals()]
        except LedgerNotTrusted:
            raise BlobCorrupt from None
        if not seals or seals[-1].id.n != self.last or any(seal.ledger != self._ledger for seal in seals):
            raise BlobCorrupt
        if any(seal.previous != before.id for before, seal in pairwise(seals)):
            raise BlobCorrupt
        wanted: dict[str, list[tuple[int, str]]] = {}
        for seal in seals:
            for segment in seal.segments:
                if segment.is_new:
                    wanted.setdefault(segment.tenant, []).append((segment.last, segment.digest))
        if wanted.keys() != self.tenants.keys():
            raise BlobCorrupt
        for tenant, ends in wanted.items():
            _check(self.tenants[tenant], ends)
        return seals


def _check(part: TenantPart, ends: Sequence[tuple[int, str]]) -> None:
    """Compare entries with the digests of the segments that end at these entries. Raises BlobCorrupt."""
    at, digest = 0, JournalDigest()
    for batch in part.batches(part.first, part.last):
        for raw in batch:
            if at == len(ends):
                raise BlobCorrupt
            digest.add([raw])
            last, expected = ends[at]
            if entry_number(raw) == last:
                if digest.hexdigest() != expected:
                    raise BlobCorrupt
                at, digest = at + 1, JournalDigest()
    if at != len(ends):
        raise BlobCorrupt


@dataclass
class _Part:
    seals: list[SealRow] = field(default_factory=list)
    blocks: list[tuple[int, int, int, int, bytes]] = field(default_factory=list)
    pending: list[RawEntry] = field(default_factory=list)

    def flush(self) -> None:
        if self.pending:
            low, high = self.pending[0], self.pending[-1]
            numbers = entry_number(low), entry_number(high)
            self.blocks.append((*numbers, _at_ms(low), _at_ms(high), zlib.compress(_packed(self.pending))))
            self.pending = []


class Draft:
    """An object that is made. `size` is that of its content before compression, `entries` their number."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.last = first - 1
        self.size = 0
        self.entries = 0
        self._seals: list[RawEntry] = []
        self._parts: dict[str, _Part] = {}

    @property
    def tenants(self) -> Sequence[str]:
        return tuple(self._parts)

    def add_entries(self, tenant: str, batch: Sequence[RawEntry]) -> None:
        """Add a tenant's next entries."""
        part = self._parts.setdefault(tenant, _Part())
        for raw in batch:
            part.pending.append(raw)
            if len(part.pending) == BLOCK_ENTRIES:
                part.flush()
            self.size += _size(raw)
        self.entries += len(batch)

    def add_seal(self, raw: RawEntry, seal: Seal) -> None:
        """Add the next seal, after the entries that it seals."""
        for segment in seal.segments:
            if segment.is_new:
                self._parts[segment.tenant].seals.append((seal.id.n, segment.first, segment.last))
        self._seals.append(raw)
        self.size += _size(raw)
        self.last = seal.id.n

    def encode(self, *, ledger: str, key: bytes, records: Mapping[str, Mapping[str, Any]]) -> bytes:
        """Return the object. `records` are those of the tenants."""
        for part in self._parts.values():
            part.flush()
        tenants = {name: [part.seals, dict(records[name]), part.blocks] for name, part in self._parts.items()}
        plain = msgpack.packb({"ledger": ledger, "seals": zlib.compress(_packed(self._seals)), "tenants": tenants})
        nonce = secrets.token_bytes(NONCE_BYTES)
        return MAGIC + nonce + AESGCM(key).encrypt(nonce, plain, object_key(ledger, self.first, self.last).encode())


def decode(data: bytes, *, ledger: str, first: int, last: int, key: bytes) -> ArchiveObject:
    """Return the object that was written for this range. Raises BlobCorrupt."""
    start = len(MAGIC) + NONCE_BYTES
    if not data.startswith(MAGIC):
        raise BlobCorrupt
    try:
        plain = AESGCM(key).decrypt(data[len(MAGIC) : start], data[start:], object_key(ledger, first, last).encode())
    except (InvalidTag, ValueError):
        raise BlobCorrupt from None
    found = msgpack.unpackb(plain, strict_map_key=False)
    tenants = {
        name: TenantPart([tuple(row) for row in seals], record, [tuple(block) for block in blocks])
        for name, (seals, record, blocks) in found["tenants"].items()
    }
    return ArchiveObject(first, last, tenants, len(plain), found["seals"], ledger)


def _packed(entries: Sequence[RawEntry]) -> bytes:
    packed: bytes = msgpack.packb([[raw[0], *(part for pair in raw[1].items() for part in pair)] for raw in entries])
    return packed


def _unpacked(packed: bytes) -> list[RawEntry]:
    flat = msgpack.unpackb(zlib.decompress(packed))
    return [(row[0], dict(zip(row[1::2], row[2::2], strict=True))) for row in flat]


def _size(raw: RawEntry) -> int:
    return len(raw[0]) + sum(len(name) + len(value) for name, value in raw[1].items())


def _at_ms(raw: RawEntry) -> int:
    return int(raw[1].get(b"at_ms", b"0"))


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


class EntryRange(NamedTuple):
    """A tenant's entries in the object that begins with the seal `object`."""

    first: int
    last: int
    from_ms: int
    to_ms: int
    object: int


class SealRange(NamedTuple):
    """A complete object: its seals, and how many entries it has."""

    first: int
    last: int
    entries: int


class LedgerArchive:
    """The archive of the ledger in Redis.

    Methods raise BlobMissing, BlobCorrupt or StoreUnavailable if an object cannot be read, LedgerNotTrusted if the
    index cannot, and LedgerUnavailable.
    """

    def __init__(self, client: LedgerClient, master_key: MasterKey, blobs: BlobStore) -> None:
        self._client = client
        self._master_key = master_key
        self._blobs = blobs
        self._store: ArchiveStore | None = None

    async def store(self, call: Call | None = None) -> ArchiveStore:
        """Return the objects of the ledger that is in Redis."""
        ledger = ((await (call or self._client.call)("GET", names.LEDGER_ID_KEY)) or b"").decode()
        if not ledger:
            raise BlobMissing
        if self._store is None or self._store.ledger != ledger:
            self._store = ArchiveStore(self._blobs, self._master_key, ledger)
        return self._store

    async def complete(self, *, after: int = 0, call: Call | None = None) -> list[SealRange]:
        """Return the complete objects with seals after number `after`, in order."""
        key = names.archive_index_key(names.CHAIN)
        rows = await (call or self._client.call)("ZRANGEBYSCORE", key, f"({after}", "+inf")
        return [SealRange(*_numbers(row, 3)) for row in rows]

    async def last_complete(self) -> int:
        """Return the last seal in a complete object."""
        key = names.archive_index_key(names.CHAIN)
        rows = await self._client.call("ZREVRANGEBYSCORE", key, "+inf", "-inf", "LIMIT", 0, 1)
        return SealRange(*_numbers(rows[0], 3)).last if rows else 0

    async def range_at(self, tenant: str, number: int) -> EntryRange | None:
        """Return the range that contains an entry; None if no complete object has it."""
        key = names.archive_index_key(tenant)
        rows = await self._client.call("ZRANGEBYSCORE", key, number, "+inf", "LIMIT", 0, 1)
        found = EntryRange(*_numbers(rows[0], 5)) if rows else None
        return found if found is not None and found.first <= number <= found.last else None

    async def part_at(self, tenant: str, number: int) -> TenantPart | None:
        """Return the tenant's entries in the object that contains an entry; None if no complete object has it."""
        found = await self.range_at(tenant, number)
        if found is None:
            return None
        store = await self.store()
        for fresh in (False, True):  # a larger object may have replaced the one in memory
            part = (await store.load(found.object, fresh=fresh)).tenants.get(tenant)
            if part is not None and part.first <= number <= part.last:
                return part
        raise BlobMissing

    async def entries(self, stream: str, *, after: int, last: int) -> AsyncIterator[list[RawEntry]]:
        """Yield the archived entries of a tenant, or the seals of CHAIN, after `after` up to `last`, in batches.

        What is not archived is left out.
        """
        if stream == names.CHAIN:
            async for batch in self._seals(after, last):
                yield batch
            return
        while after < last and (part := await self.part_at(stream, after + 1)) is not None:
            for batch in part.batches(after + 1, last):
                yield batch
            after = part.last

    async def continues(self, known: SealId, next_: Seal, call: Call) -> bool:
        """Whether the archived chain contains the seal `known` and leads from there to `next_`."""
        previous: SealId | None = None
        async for batch in self._seals(known.n - 1, next_.id.n - 1, call):
            for raw in batch:
                seal = seal_entry(raw, self._master_key)
                if previous is None:  # `known`, or an operator's acceptance of a state before it
                    follows = seal.id == known or (seal.restored is not None and seal.previous.n < known.n)
                else:
                    follows = seal.previous == previous
                if not follows:
                    return False
                previous = seal.id
        return previous is not None and next_.previous == previous

    async def _seals(self, after: int, last: int, call: Call | None = None) -> AsyncIterator[list[RawEntry]]:
        for row in await self.complete(after=after, call=call):
            if row.first <= last:
                found = await (await self.store(call)).load(row.first)
                batch = [raw for raw in found.raw_seals() if after < entry_number(raw) <= last]
                after = max(after, found.last)
                yield batch


def _numbers(row: bytes, count: int) -> list[int]:
    found = row.split(b":")
    if len(found) != count or not all(part.isdigit() for part in found):
        raise LedgerNotTrusted("The index of the archive cannot be read.")
    return list(map(int, found))
