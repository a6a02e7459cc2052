"""The format of an object of the archive.

Guarantee: an object is what this ledger wrote under this key, or BlobCorrupt is raised. AES-256-GCM under a key that is
derived from the master key authenticates the content together with the object's key, which contains the ledger, the
stream, the range and the digest. So a changed, shortened or exchanged object is never used.

    b"PGA1", nonce (12 bytes), AES-256-GCM of msgpack [header, blocks]

The header is `{"ledger", "stream", "first", "last", "count", "sha256", "from_ms", "to_ms", "seals", "record"}`. `seals`
lists `[seal, first, last]` for each seal that contains entries of the range. `record` has the fields of the tenant's
record that a restore needs. A block is `[first, last, from_ms, to_ms, zlib of msgpack [entries]]`, with up to
BLOCK_ENTRIES entries. An entry is its id, then the names and values of its fields. A reader decodes only the blocks
that it needs.
"""

from __future__ import annotations

import secrets
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.blob_errors import BlobCorrupt
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.chain import JournalDigest, RawEntry
from core.ledger.keys import NONCE_BYTES
from core.ledger.pages import entry_number

MAGIC = b"PGA1"
BLOCK_ENTRIES = 250

SealRow = tuple[int, int, int]  # a seal, and the first and last entry that it contains


@dataclass(frozen=True)
class ArchiveObject:
    """One object, decrypted. Its blocks stay compressed until they are read."""

    range: ArchivedRange
    seals: tuple[SealRow, ...]
    record: Mapping[str, Any]
    blocks: tuple[tuple[int, int, int, int, bytes], ...]
    nbytes: int

    def batches(self, first: int, last: int) -> Iterator[list[RawEntry]]:
        """Yield the entries from `first` to `last`, oldest first, decoding one block at a time."""
        for low, high, *_, packed in self.blocks:
            if low <= last and high >= first:
                yield [raw for raw in _entries(packed) if first <= entry_number(raw) <= last]

    def newest(self, first: int, last: int, count: int) -> list[RawEntry]:
        """Return up to `count` entries from `first` to `last`, newest first."""
        found: list[RawEntry] = []
        for low, high, *_, packed in reversed(self.blocks):
            if low <= last and high >= first and len(found) < count:
                found += [raw for raw in reversed(_entries(packed)) if first <= entry_number(raw) <= last]
        return found[:count]

    def first_at(self, at_ms: int) -> int | None:
        """Return the number of the first entry at or after a time; None if all are earlier."""
        for _, _, _, to_ms, packed in self.blocks:
            if to_ms >= at_ms:
                return next((entry_number(raw) for raw in _entries(packed) if _at_ms(raw) >= at_ms), None)
        return None

    def seal_of(self, number: int) -> int | None:
        """Return the number of the seal that contains an entry."""
        at = bisect_left(self.seals, number, key=lambda row: row[2])
        return self.seals[at][0] if at < len(self.seals) and self.seals[at][1] <= number else None

    def check(self) -> None:
        """Decode everything and compare it with the digest in the object's key. Raises BlobCorrupt."""
        digest, expected = JournalDigest(), self.range.first
        for batch in self.batches(self.range.first, self.range.last):
            digest.add(batch)
            if self.range.stream != CHAIN:  # seals may skip numbers
                if [entry_number(raw) for raw in batch] != list(range(expected, expected + len(batch))):
                    raise BlobCorrupt
                expected += len(batch)
        if digest.hexdigest() != self.range.digest:
            raise BlobCorrupt


def encode(
    range_: ArchivedRange,
    entries: Sequence[RawEntry],
    *,
    ledger: str,
    key: bytes,
    seals: Sequence[SealRow] = (),
    record: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the object with these entries, for the key of `range_`."""
    header = {
        "ledger": ledger,
        "stream": range_.stream,
        "first": range_.first,
        "last": range_.last,
        "count": len(entries),
        "sha256": range_.digest,
        "from_ms": range_.from_ms,
        "to_ms": range_.to_ms,
        "seals": [list(row) for row in seals],
        "record": dict(record or {}),
    }
    parts = (entries[start : start + BLOCK_ENTRIES] for start in range(0, len(entries), BLOCK_ENTRIES))
    plain = msgpack.packb([header, [_block(part) for part in parts]])
    nonce = secrets.token_bytes(NONCE_BYTES)
    return MAGIC + nonce + AESGCM(key).encrypt(nonce, plain, range_.blob_key(ledger).encode())


def decode(data: bytes, *, blob_key: str, ledger: str, key: bytes) -> ArchiveObject:
    """Return the object that was written under `blob_key`. Raises BlobCorrupt."""
    start = len(MAGIC) + NONCE_BYTES
    if not data.startswith(MAGIC):
        raise BlobCorrupt
    try:
        plain = AESGCM(key).decrypt(data[len(MAGIC) : start], data[start:], blob_key.encode())
    except (InvalidTag, ValueError):
        raise BlobCorrupt from None
    header, blocks = msgpack.unpackb(plain, strict_map_key=False)
    range_ = ArchivedRange(
        header["stream"], header["first"], header["last"], header["sha256"], header["from_ms"], header["to_ms"]
    )
    if header["ledger"] != ledger or range_.blob_key(ledger) != blob_key:
        raise BlobCorrupt
    return ArchiveObject(
        range_,
        tuple((row[0], row[1], row[2]) for row in header["seals"]),
        header["record"],
        tuple((row[0], row[1], row[2], row[3], row[4]) for row in blocks),
        len(plain),
    )


def range_of(stream: str, entries: Sequence[RawEntry]) -> ArchivedRange:
    """Return the range that an object with these entries has."""
    first, last = entry_number(entries[0]), entry_number(entries[-1])
    return ArchivedRange(
        stream, first, last, JournalDigest(entries).hexdigest(), _at_ms(entries[0]), _at_ms(entries[-1])
    )


def _block(entries: Sequence[RawEntry]) -> list[Any]:
    flat = [[raw[0], *(part for pair in raw[1].items() for part in pair)] for raw in entries]
    numbers = (entry_number(entries[0]), entry_number(entries[-1]))
    return [*numbers, _at_ms(entries[0]), _at_ms(entries[-1]), zlib.compress(msgpack.packb(flat))]


def _entries(packed: bytes) -> list[RawEntry]:
    flat = msgpack.unpackb(zlib.decompress(packed))
    return [(row[0], dict(zip(row[1::2], row[2::2], strict=True))) for row in flat]


def _at_ms(raw: RawEntry) -> int:
    return int(raw[1].get(b"at_ms", b"0"))
