"""The format of an object of the archive: a range of seals, and every entry that they seal.

Guarantee: an object is what this ledger wrote under this key, or BlobCorrupt is raised. AES-256-GCM under a key that is
derived from the master key authenticates the content together with the object's key, which contains the ledger and the
range. So a changed, shortened or exchanged object is never used.

    b"PGA1", nonce (12 bytes), AES-256-GCM of msgpack {"ledger", "seals", "tenants"}

`seals` is zlib of msgpack [seal]. `tenants` has for each tenant `[seals, record, blocks]`: rows `[seal, first, last]`,
the fields of the tenant's record that a restore needs, and blocks `[first, last, from_ms, to_ms, zlib of msgpack
[entries]]` with up to BLOCK_ENTRIES entries. Entries and seals are their id, then the names and values of their fields.
A reader decodes only the blocks that it needs.
"""

import secrets
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgpack
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.errors import BlobCorrupt, LedgerNotTrusted
from core.ledger.hash_chain.chain import JournalDigest, RawEntry, Seal, seal_entry
from core.ledger.pages import entry_number
from core.master_key import NONCE_BYTES, MasterKey

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
