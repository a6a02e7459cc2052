"""Which blobs of the blob store belong to which name of an owner: packs, tuned models and artifacts of jobs.

Guarantee: a name refers to the blobs of one entry, whole, on every gateway. The owner's bytes are counted in the same
script that changes an entry, so a quota holds whichever gateway stores a file. An entry's blobs belong to it alone. An
entry that has expired, on the clock of Redis, is not returned and does not count. Blobs without an entry are orphans,
which `service.files.orphans` removes once no entry can refer to them any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from core.errors import StorageFull, TenantInactive
from core.redis import names
from core.redis.client import LedgerClient, SharedReads

DOMAINS = "domains"
MODELS = "infill"
CLASSIFIERS = "finetune"
ARTIFACTS = "artifacts"
BATCH_FILES = "batch-files"
BATCHES = "batches"
AREAS = (DOMAINS, MODELS, CLASSIFIERS, ARTIFACTS, BATCH_FILES, BATCHES)


@dataclass(frozen=True)
class StoredPart:
    """One file of an entry. `blob`: its name in the store. `digest`: the SHA-256 of the plain file. `size`: of the
    blob, in bytes."""

    blob: str
    digest: str
    size: int


@dataclass(frozen=True)
class StoredEntry:
    """The files of one name, by their suffix, such as `.safetensors`. `key`: their key, wrapped by the master key.
    `facts`: what else belongs to the name, encrypted under the master key, as base64."""

    parts: Mapping[str, StoredPart]
    key: str
    ends_ms: int | None = None
    facts: str | None = None

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts.values())

    def as_json(self) -> dict[str, Any]:
        parts = {suffix: [part.blob, part.digest, part.size] for suffix, part in self.parts.items()}
        facts = {} if self.facts is None else {"facts": self.facts}
        return {"parts": parts, "key": self.key, "ends_ms": self.ends_ms, **facts}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> StoredEntry:
        parts = {suffix: StoredPart(*part) for suffix, part in value["parts"].items()}
        return cls(parts, value["key"], value["ends_ms"], value.get("facts"))

    def packed(self) -> str:
        """As Redis stores it."""
        return f"{self.size} {orjson.dumps(self.as_json(), option=orjson.OPT_SORT_KEYS).decode()}"


@dataclass(frozen=True)
class NamedEntry:
    """An entry under the name that it gets."""

    area: str
    name: str
    entry: StoredEntry

    def packed(self) -> dict[str, Any]:
        ends = {} if self.entry.ends_ms is None else {"ends_ms": self.entry.ends_ms}
        return {"area": self.area, "name": self.name, "entry": self.entry.packed(), **ends}


class StoredFileIndex:
    """The entries of all owners. An owner is a tenant, or SHARED_OWNER for the operator."""

    def __init__(self, client: LedgerClient, *, bytes_max: int) -> None:
        """`bytes_max`: of a tenant's files; the operator's have no limit."""
        self._client = client
        self._reads = SharedReads(client)
        self._bytes_max = bytes_max

    async def get(self, owner: str, area: str, name: str) -> StoredEntry | None:
        return (await self.get_many([(owner, area, name)]))[0]

    async def get_many(self, wanted: Sequence[tuple[str, str, str]]) -> list[StoredEntry | None]:
        """The entries of several names, in about one round trip."""
        keys = [("HGET", names.files_key(owner, area), name) for owner, area, name in wanted]
        found = [None if raw is None else _entry(raw) for raw in await self._reads.many(keys)]
        now_ms = await self._now_ms(found)
        return [None if entry is None or _has_ended(entry, now_ms) else entry for entry in found]

    async def of_owner(self, owner: str, area: str) -> dict[str, StoredEntry]:
        raw: Mapping[bytes, bytes] = await self._client.call("HGETALL", names.files_key(owner, area))
        found = {name.decode(): _entry(entry) for name, entry in raw.items()}
        now_ms = await self._now_ms(found.values())
        return {name: entry for name, entry in found.items() if not _has_ended(entry, now_ms)}

    async def names(self, owner: str, area: str) -> set[str]:
        return {name.decode() for name in await self._client.call("HKEYS", names.files_key(owner, area))}

    async def used(self, owner: str) -> int:
        """Bytes of the owner's files in the store: entries, and inputs and checkpoints of unfinished jobs."""
        await self.expire(owner)
        return int(await self._client.call("GET", names.files_bytes_key(owner)) or 0)

    async def put(self, owner: str, named: NamedEntry) -> StoredEntry | None:
        """Store the entry. Return the one that it replaced. Raises StorageFull, TenantInactive for a closed tenant."""
        found = await self._run(owner, {"action": "put", "bytes_max": self.bytes_max(owner), **named.packed()})
        if found["outcome"] == "full":
            raise StorageFull(limit="tenant_disk_bytes_max")
        if found["outcome"] == "tenant-closed":
            raise TenantInactive(code="tenant-closed")
        return _replaced(found)

    async def remove(self, owner: str, area: str, name: str) -> StoredEntry | None:
        """Remove the entry and return it."""
        return _replaced(await self._run(owner, {"action": "remove", "area": area, "name": name}))

    async def expire(self, owner: str) -> None:
        """Remove the entries that have expired. Their blobs are orphans then."""
        key = names.files_ends_key(owner)
        while await self._client.call("ZRANGEBYSCORE", key, "-inf", await self.now_ms(), "LIMIT", 0, 1):
            await self._run(owner, {"action": "expire"})

    def bytes_max(self, owner: str) -> int:
        """The owner's limit; 0 for none."""
        return 0 if owner == names.SHARED_OWNER else self._bytes_max

    async def now_ms(self) -> int:
        """The time by which entries expire, of the clock of Redis."""
        return await self._client.now_ms()

    async def _now_ms(self, entries: Iterable[StoredEntry | None]) -> int:
        """The time, if an entry has an end."""
        ends = any(entry is not None and entry.ends_ms is not None for entry in entries)
        return await self.now_ms() if ends else 0

    async def _run(self, owner: str, args: Mapping[str, Any]) -> dict[str, Any]:
        found, _ = await self._client.run("files", key=names.jobs_base_key(owner), args=args)
        return found


def _replaced(found: Mapping[str, Any]) -> StoredEntry | None:
    raw = found.get("replaced")
    return unpacked_entry(raw) if raw else None


def unpacked_entry(raw: str | bytes) -> StoredEntry:
    """What `StoredEntry.packed` returned."""
    return _entry(raw.encode() if isinstance(raw, str) else raw)


def _has_ended(entry: StoredEntry, now_ms: int) -> bool:
    return entry.ends_ms is not None and entry.ends_ms <= now_ms


def _entry(raw: bytes) -> StoredEntry:
    return StoredEntry.of_json(orjson.loads(raw.partition(b" ")[2]))
