"""Copies everything that is sealed to the archive, and removes from Redis what it need not keep.

Guarantee: an entry or a seal is removed from Redis only if an object of the archive has it, which was read back and
compared with the seals and with the chain in Redis. That object, and those before it, are all that a restore needs. A
crash at any step leaves entries in both places, and the next round continues. Any number of archivers may run at once:
an object with more seals replaces one with fewer, and none is removed that a complete one does not contain.

Each round copies the seals after the last complete object, with the entries that they seal, to an object that grows
until it has `object_bytes`. Then it is complete: the index in Redis names it, and the next one begins. Entries and
seals of complete objects are removed, the oldest first, until the rest of them has at most `keep_entries` entries.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.accounting.events import Unit
from core.errors import BlobCorrupt, BlobMissing, LedgerNotTrusted
from core.ledger.archive.store import ArchiveObject, Draft, EntryRange, LedgerArchive, SealRange
from core.ledger.hash_chain.chain import ChainHead, JournalDigest, Seal, Segment, seal_entry
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.pages import entry_number, first_in_redis, raw_entries
from core.master_key import MasterKey
from core.redis import names
from core.redis.client import LedgerClient

OBJECT_BYTES = 4 * 1024 * 1024  # before compression; each round writes the newest object anew
KEEP_ENTRIES = 200_000
KEEP_SEALS = 1000  # each tenant is repeated within half of them (`Sealer`)
_SEALS = 20  # a seal over thousands of tenants has megabytes
_KEPT_FIELDS = (b"mode", b"operation", b"created_ms", b"state")


@dataclass(frozen=True)
class ArchiveRound:
    """What a round did. `complete`: nothing that is due was left, such as entries that the series do not contain."""

    copied: int = 0
    trimmed: int = 0
    complete: bool = True


class Archiver:
    """Runs rounds. `trim_client` removes entries; it may be another user of the same Redis, with the right to XTRIM.

    `after_step` is called after each step; tests end a round there.
    """

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        sealer: Sealer,
        archive: LedgerArchive,
        *,
        trim_client: LedgerClient,
        keep_entries: int = KEEP_ENTRIES,
        keep_seals: int = KEEP_SEALS,
        object_bytes: int = OBJECT_BYTES,
        after_step: Callable[[str], object] = str,
    ) -> None:
        self._client = client
        self._master_key = master_key
        self._sealer = sealer
        self._archive = archive
        self._trim_client = trim_client
        self._keep_entries = keep_entries
        self._keep_seals = keep_seals
        self._object_bytes = object_bytes
        self._after_step = after_step
        self._copied = 0  # the last seal that this process has copied

    async def run_once(self) -> ArchiveRound:
        """Run one round. Call `Sealer.check` first.

        Raises LedgerNotTrusted if the journal is not the one that was sealed, which also stops the client as a sealing
        round does; StoreUnavailable, StorageFull, BlobMissing, BlobCorrupt, LedgerUnavailable.
        """
        head = await self._sealer.current_head()
        if head.seal is None:
            return ArchiveRound()
        copied = await self._copy(head.id.n) if head.id.n > self._copied else 0
        if copied is None:
            return ArchiveRound(complete=False)
        self._copied = head.id.n
        trimmed, complete = await self._trim(head)
        return ArchiveRound(copied, trimmed, complete)

    async def _copy(self, last: int) -> int | None:
        """Copy the seals after the last complete object up to number `last`. Returns the number of entries.

        Returns None if another archiver has removed what this one was reading.
        """
        copied, after = 0, await self._archive.last_complete()
        while after < last:
            try:
                draft = await self._draft(after + 1, last, bytes_max=self._object_bytes)
            except LedgerNotTrusted as error:
                if not self._client.is_stopped and await self._archive.last_complete() > after:
                    return None
                self._client.stop(error.detail)
                raise
            found = await self._write(draft)
            if draft.size >= self._object_bytes:
                await write_index(self._client, found, entries=draft.entries)
                self._after_step("indexed")
            after, copied = draft.last, copied + draft.entries
        return copied

    async def _draft(self, first: int, last: int, *, bytes_max: int | None = None) -> Draft:
        """Return the seals from `first` to `last` with their entries, or as many of them as exceed `bytes_max`."""
        draft, before, start = Draft(first), None, f"{first}-0"
        while found := await self._client.call("XRANGE", names.SEAL_CHAIN_KEY, start, f"{last}-0", "COUNT", _SEALS):
            for raw in found:
                seal = seal_entry(raw, self._master_key)
                if seal.previous.n != draft.last or (before is not None and seal.previous != before):
                    raise LedgerNotTrusted(f"Seal {seal.previous.n} of the ledger is missing.")
                for segment in seal.segments:
                    if segment.is_new:
                        await self._add(draft, seal, segment)
                draft.add_seal(raw, seal)
                before = seal.id
                if bytes_max is not None and draft.size >= bytes_max:
                    return draft
            start = f"({found[-1][0].decode()}"
        if draft.last != last:
            raise LedgerNotTrusted(f"Seal {last} of the ledger is missing.")
        return draft

    async def _add(self, draft: Draft, seal: Seal, segment: Segment) -> None:
        digest = JournalDigest()
        async for batch in raw_entries(self._client, segment.tenant, after=segment.first - 1, last=segment.last):
            await asyncio.to_thread(digest.add, batch)
            await asyncio.to_thread(draft.add_entries, segment.tenant, batch)
        if digest.hexdigest() != segment.digest:
            raise LedgerNotTrusted(
                f"Entries {segment.first} to {segment.last} of the tenant {segment.tenant} are not the ones that seal "
                f"{seal.id.n} sealed; `privacy-gateway ledger audit` shows where"
            )

    async def _write(self, draft: Draft) -> ArchiveObject:
        """Write an object, read it back, and remove those that it replaces."""
        store = await self._archive.store()
        records = {tenant: await tenant_record(self._client, tenant) for tenant in draft.tenants}
        await store.put(draft, records)
        self._after_step("written")
        try:
            found = await self._checked(await store.read(draft.first, draft.last))
        except (BlobMissing, BlobCorrupt):
            await store.put(draft, records, replace=True)
            found = await self._checked(await store.read(draft.first, draft.last))
        self._after_step("read-back")
        await store.remove_smaller(draft.first, draft.last)
        self._after_step("replaced")
        return found

    async def _checked(self, found: ArchiveObject) -> ArchiveObject:
        await asyncio.to_thread(found.checked_seals, self._master_key)
        return found

    async def _trim(self, head: ChainHead) -> tuple[int, bool]:
        """Remove entries and seals of complete objects. Returns how many entries, and whether nothing had to wait."""
        done = int(await self._client.call("GET", names.ARCHIVE_TRIMMED_KEY) or 0)
        kept, due = 0, []
        for row in reversed(await self._archive.complete(after=done)):
            kept += row.entries
            if kept > self._keep_entries:
                due.append(row)
        trimmed, complete = 0, True
        for row in reversed(due):
            removed, complete = await self._trim_journals(await self._verified(row), head)
            trimmed += removed
            if not complete:
                break
            done = max(done, row.last)
            await self._client.call("SET", names.ARCHIVE_TRIMMED_KEY, done)
            self._after_step("trimmed")
        await self._trim_chain(head, done)
        return trimmed, complete

    async def _verified(self, row: SealRange) -> ArchiveObject:
        """Return an object that has the seals of Redis and their entries, written again if it was lost or damaged."""
        try:
            found = await self._checked(await (await self._archive.store()).load(row.first, fresh=True))
            [end] = found.raw_seals()[-1:]
            if await self._client.call("XRANGE", names.SEAL_CHAIN_KEY, end[0], end[0]) == [end]:
                return found
            error: Exception = BlobCorrupt()
        except (BlobMissing, BlobCorrupt) as failure:
            error = failure
        try:
            return await self._write(await self._draft(row.first, row.last))
        except LedgerNotTrusted:
            raise error from None  # a part was removed before

    async def _trim_journals(self, found: ArchiveObject, head: ChainHead) -> tuple[int, bool]:
        """Remove the entries of an object. Redis keeps each tenant's last sealed entry, which each sealing reads."""
        trimmed, complete = 0, True
        for tenant, part in found.tenants.items():
            up_to = min(part.last, head.tenants[tenant].last - 1)
            async with self._sealer.lock:
                answer, _ = await self._trim_client.run("trim", key=names.tenant_key(tenant), args={"up_to": up_to})
            end = int(answer["up_to"])
            await self._client.call("ZREMRANGEBYSCORE", names.segments_key(tenant), "-inf", end)
            trimmed += max(0, end - part.first + 1)
            complete = complete and end == up_to
        return trimmed, complete

    async def _trim_chain(self, head: ChainHead, done: int) -> None:
        """Remove seals that are archived and that no tenant needs."""
        first = await first_in_redis(self._client, names.SEAL_CHAIN_KEY) or 0
        bound = min(done + 1, head.id.n - self._keep_seals + 1, *(one.n for one in head.tenants.values()))
        kept = await self._client.call("XREVRANGE", names.SEAL_CHAIN_KEY, f"{max(bound, 0)}-0", "-", "COUNT", 1)
        if kept and entry_number(kept[0]) > first:
            async with self._sealer.lock:
                await self._trim_client.run("trim", key=names.SEAL_CHAIN_KEY, args={"keep": entry_number(kept[0])})
            self._after_step("chain-trimmed")


async def write_index(client: LedgerClient, found: ArchiveObject, *, entries: int) -> None:
    """Name a complete object in the index: first for each tenant, then as a whole.

    If an archiver repeats this, also with a larger object, the rows agree with the former ones.
    """
    rows = [
        (tenant, EntryRange(part.first, part.last, part.blocks[0][2], part.blocks[-1][3], found.first))
        for tenant, part in found.tenants.items()
    ]
    await client.call_many([("ZADD", names.archive_index_key(name), row.last, _row(row)) for name, row in rows])
    row = SealRange(found.first, found.last, entries)
    await client.call("ZADD", names.archive_index_key(names.CHAIN), row.last, _row(row))


def _row(numbers: tuple[int, ...]) -> str:
    return ":".join(map(str, numbers))


async def tenant_record(client: LedgerClient, tenant: str) -> Mapping[str, Any]:
    """Return what a restore needs and the journal does not have: the terms of the tenant and its current limits."""
    fields = await client.call("HGETALL", names.tenant_key(tenant))
    current = await client.call_many([("HGET", names.account_key(tenant, unit.value), "current") for unit in Unit])
    return {
        "tenant": {
            name.decode(): value
            for name, value in fields.items()
            if name in _KEPT_FIELDS or name.startswith(b"subject:")
        },
        "current": {unit.value: value for unit, value in zip(Unit, current, strict=True) if value},
    }
