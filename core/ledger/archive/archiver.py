"""Moves sealed ranges of the journals, and of the chain of seals, to the archive.

Guarantee: nothing is removed from Redis before a seal records that the archive has it, and nothing is recorded before
it was read back from the blob store and compared with the seals. The archive alone shows everything that
was removed: the seal that records it is there, too. A crash at any step leaves entries in both places, and
the next round continues. Two archivers at once write the same objects or objects that no seal records, and a round that
reads what the other one has just removed ends without a result.

A round has these steps: copy the newest seals if an earlier round ended before it did; copy ranges of whole segments;
read them back; copy the seals; record all of it in a new seal (`Sealer.record_archive`, which accepts a range only if
it follows those recorded before); copy the newest seals once more, so that the archive alone shows what was recorded;
remove what Redis need not keep (trim.lua).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from core.blob_errors import BlobCorrupt, BlobError, BlobMissing
from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.archive.chain_reads import SegmentRow, segments_of
from core.ledger.archive.copying import JournalCopy, copy_chain, shows_record
from core.ledger.archive.policy import ArchivePolicy, ArchiveRound
from core.ledger.archive.reader import LedgerArchive
from core.ledger.archive.rights import check_archive_rights
from core.ledger.client import LedgerClient
from core.ledger.duty_lease import DutyLease
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.chain import Archived, ChainHead, Head, Seal, SealId
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.journal_reads import first_entry_at
from core.ledger.keys import MasterKey
from core.ledger.pages import entry_number, first_in_redis

TENANTS_PER_ROUND = 200
_TRIM_STEP = 1_000  # entries: less than a millisecond of Redis
_READ_BATCH = 250


class Archiver:
    """Runs rounds. Any number of processes may run one at a time each.

    `trim_client` removes entries; it may be another user of the same Redis, with the right to XTRIM. None: a round
    copies and removes nothing. `after_step` is called after each step; tests end a round there.
    """

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        sealer: Sealer,
        archive: LedgerArchive,
        policy: ArchivePolicy,
        *,
        trim_client: LedgerClient | None = None,
        after_step: Callable[[str], object] = str,
    ) -> None:
        self._client = client
        self._master_key = master_key
        self._sealer = sealer
        self._archive = archive
        self._policy = policy
        self._trim_client = trim_client
        self._after_step = after_step
        self._first: dict[str, tuple[int, int]] = {}  # the first entry in Redis and its time, by tenant
        self._checked: dict[str, int] = {}  # up to which entry this process has verified the archive
        self._chain_end: list[ArchivedRange] = []  # the newest seals, which the next round archives with others
        self._chain_recorded = 0  # the last archived seal that this process's own last record names
        self._repeats_are_left = False  # the last record repeated as many idle tenants as one may
        self._shown = SealId()  # the archive alone shows what was recorded with this last archived seal

    async def check_rights(self) -> None:
        """Find out whether Redis permits what a round does. Call this at start. Raises LedgerUnavailable."""
        if self._trim_client is not None:
            await check_archive_rights(self._client, self._trim_client)

    async def run_once(self, *, everything: bool = False, lease: DutyLease | None = None) -> ArchiveRound:
        """Run one round. With `everything` all sealed entries are archived; Redis keeps what the policy keeps.

        With `lease` it is recorded only while this process holds that lease. Call `Sealer.check` first. Raises
        LedgerNotTrusted if the journal is not the one that was sealed, which also stops the client as a sealing round
        does; StoreUnavailable, StorageFull, BlobMissing, BlobCorrupt, LedgerUnavailable. An object that is missing or
        damaged does not keep the entries of other tenants in Redis.
        """
        head = await self._sealer.current_head()
        if head.seal is None:
            return ArchiveRound()
        first_seal = await first_in_redis(self._client, names.SEAL_CHAIN_KEY)
        try:
            return await self._round(head, head.seal, everything, lease)
        except LedgerNotTrusted as error:
            moved = first_seal != await first_in_redis(self._client, names.SEAL_CHAIN_KEY)
            if not self._client.is_stopped and (moved or await self._sealer.has_moved(head)):
                self._first.clear()  # another archiver has removed what this round was reading
                return ArchiveRound(complete=False)
            self._client.stop(error.detail)
            raise

    async def _round(self, head: ChainHead, seal: Seal, everything: bool, lease: DutyLease | None) -> ArchiveRound:
        await self._repair_chain_end(head, seal)
        now_ms = await self._client.now_ms()
        await self._read_firsts(head.tenants)
        removable = {tenant: await self._removable(tenant, one, now_ms) for tenant, one in head.tenants.items()}
        wanted = {
            tenant: up_to
            for tenant, one in head.tenants.items()
            if (up_to := one.last if everything else removable[tenant]) > one.archived
        }
        complete = len(wanted) <= TENANTS_PER_ROUND
        wanted = dict(list(wanted.items())[:TENANTS_PER_ROUND])
        ranges = await self._copied(head, wanted) if wanted else []
        kept_seals_from = await self._kept_seals_from(head)
        if ranges or kept_seals_from > seal.archived.chain.n + 1 or self._repeats_are_left:
            recorded = await self._record(head, ranges, kept_seals_from, lease)
            if recorded is None:
                return ArchiveRound(complete=False)
            head = recorded
            self._repeats_are_left = any(one.n < kept_seals_from for one in head.tenants.values())
            complete = complete and not self._repeats_are_left
        trimmed, waiting, errors = await self._trim_journals(head.tenants, removable)
        seals_trimmed = await self._trim_chain(head, kept_seals_from)
        if errors:
            raise errors[0]
        copied = [range_ for range_ in ranges if range_.stream != CHAIN]
        return ArchiveRound(
            entries=sum(range_.last - range_.first + 1 for range_ in copied),
            objects=len(copied),
            trimmed=trimmed,
            seals_trimmed=seals_trimmed,
            waiting=waiting,
            complete=complete,
        )

    async def _read_firsts(self, tenants: Iterable[str]) -> None:
        """Read the first entry in Redis of each tenant, unless it is known. Only a removal changes it."""
        unknown = [tenant for tenant in tenants if tenant not in self._first]
        for start in range(0, len(unknown), _READ_BATCH):
            batch = unknown[start : start + _READ_BATCH]
            replies = await self._client.call_many(
                [("XRANGE", names.journal_key(tenant), "-", "+", "COUNT", 1) for tenant in batch]
            )
            for tenant, found in zip(batch, replies, strict=True):
                if not found:
                    raise LedgerNotTrusted(f"The journal of the tenant {tenant} is missing.")
                self._first[tenant] = entry_number(found[0]), int(found[0][1][b"at_ms"])

    async def _removable(self, tenant: str, head: Head, now_ms: int) -> int:
        """Return up to which entry the policy moves a journal, 0 for none.

        That is the last sealed entry if all are old. Redis keeps this entry, because each sealing round reads it.
        """
        policy, (first, first_ms) = self._policy, self._first[tenant]
        too_many = (
            head.last - policy.keep_entries if head.last - first >= policy.keep_entries + policy.object_entries else 0
        )
        if first >= head.last or now_ms < first_ms + policy.after_ms:
            return too_many
        young = await first_entry_at(self._client, tenant, now_ms - policy.after_ms // 2)
        return max(too_many, min(young - 1, head.last))

    async def _copied(self, head: ChainHead, wanted: Mapping[str, int]) -> list[ArchivedRange]:
        """Copy whole segments up to the wanted entries, and read them back."""
        segments = await segments_of(self._client, self._master_key, self._archive, head.tenants, wanted)
        store = await self._archive.store()
        ranges: list[ArchivedRange] = []
        for tenant, rows in segments.items():
            if rows:
                copy = JournalCopy(self._client, store, tenant, rows, policy=self._policy)
                ranges += await self._checked_copy(tenant, copy, rows)
        return ranges

    async def _checked_copy(self, tenant: str, copy: JournalCopy, rows: list[SegmentRow]) -> list[ArchivedRange]:
        written = await copy.write()
        self._after_step("written")
        try:
            await copy.read_back(written)
        except BlobCorrupt:
            written = await copy.write(replace=True)  # from Redis, which has these entries until they are recorded
            await copy.read_back(written)
        self._after_step("read-back")
        self._checked[tenant] = rows[-1][2]
        return written

    async def _kept_seals_from(self, head: ChainHead) -> int:
        """Return the first seal that stays in Redis."""
        first = await first_in_redis(self._client, names.SEAL_CHAIN_KEY) or head.id.n
        return max(first, head.id.n - self._policy.keep_seals + 1)

    async def _record(
        self, head: ChainHead, ranges: list[ArchivedRange], kept_seals_from: int, lease: DutyLease | None
    ) -> ChainHead | None:
        store = await self._archive.store()
        before = head.seal.archived.chain.n if head.seal else 0
        chain = await self._copied_chain(before, head.id.n)
        self._after_step("chain-written")
        archived = Archived(head.id, (*ranges, *chain))
        # Each record adds a seal; all idle tenants are repeated within half of the seals that Redis keeps.
        repeat_max = max(self._policy.repeats_max, math.ceil(2 * len(head.tenants) / self._policy.keep_seals))
        recorded = await self._sealer.record_archive(
            archived, repeat_before=kept_seals_from, repeat_max=repeat_max, lease=lease
        )
        self._after_step("recorded")
        if recorded is not None:
            # If another process has recorded a part of the chain since, that may be one of these very objects.
            own = self._chain_end if before == self._chain_recorded else []
            superseded = [range_ for range_ in own if range_ not in chain]
            self._chain_end = await self._copied_chain(head.id.n, recorded.id.n)
            self._chain_recorded, self._shown = head.id.n, head.id
            self._after_step("chain-end-written")
            await store.delete(superseded)
        return recorded

    async def _repair_chain_end(self, head: ChainHead, seal: Seal) -> None:
        """Copy the newest seals if the archive does not have the one with the last record.

        A process that ended after it had recorded ranges has not copied them. Without them the archive alone does not
        show these ranges, so nothing may be removed before.
        """
        recorded = seal.archived.chain
        if recorded.n and recorded != self._shown:
            store = await self._archive.store()
            if not await shows_record(self._client, self._master_key, store, recorded):
                self._chain_end = await self._copied_chain(recorded.n, head.id.n)
                self._chain_recorded = recorded.n
                self._after_step("chain-end-repaired")
            self._shown = recorded

    async def _copied_chain(self, after: int, last: int) -> list[ArchivedRange]:
        store = await self._archive.store()
        return await copy_chain(self._client, store, after=after, last=last, bytes_max=self._policy.object_bytes)

    async def _trim_journals(
        self, heads: Mapping[str, Head], removable: Mapping[str, int]
    ) -> tuple[int, int, list[BlobError]]:
        """Remove archived entries that the policy removes.

        Return their number, how many must wait, and what was wrong with the objects of tenants whose entries stay.
        """
        trimmed = waiting = 0
        errors: list[BlobError] = []
        for tenant, up_to in removable.items():
            up_to = min(up_to, heads[tenant].archived, heads[tenant].last - 1)
            first, _ = self._first[tenant]
            if self._trim_client is not None and first <= up_to:
                try:
                    end = await self._trim_journal(self._trim_client, tenant, first, up_to)
                except (BlobMissing, BlobCorrupt) as error:
                    errors.append(error)
                    continue
                trimmed += end - first + 1
                waiting += up_to - end
        return trimmed, waiting, errors

    async def _trim_journal(self, client: LedgerClient, tenant: str, first: int, up_to: int) -> int:
        """Remove the entries from `first` to `up_to`. Return the last one that is removed."""
        await self._check_archive(tenant, first, up_to)
        del self._first[tenant]
        end = first - 1
        while end < up_to:
            step = min(up_to, end + _TRIM_STEP)
            async with self._sealer.lock:
                found, _ = await client.run("trim", key=names.tenant_key(tenant), args={"up_to": step})
            end = max(end, int(found["up_to"]))
            self._after_step("trimmed")
            if end < step:
                break  # the series do not contain the rest yet
        await self._client.call("ZREMRANGEBYSCORE", names.segments_key(tenant), "-inf", end)
        self._after_step("index-trimmed")
        return end

    async def _check_archive(self, tenant: str, first: int, up_to: int) -> None:
        """Read what is removed from the archive, unless this process has just done so."""
        after = max(first - 1, self._checked.get(tenant, 0))
        while after < up_to:
            range_ = await self._archive.range_at(tenant, after + 1)
            if range_ is None:
                raise BlobMissing
            await (await self._archive.store()).read(range_, check=True)
            after = self._checked[tenant] = range_.last

    async def _trim_chain(self, head: ChainHead, kept_from: int) -> int:
        """Remove seals that are archived and that no tenant needs. Return their number."""
        if head.seal is None or self._trim_client is None:
            return 0
        first = await first_in_redis(self._client, names.SEAL_CHAIN_KEY) or head.id.n
        kept_from = min(kept_from, head.seal.archived.chain.n, *(one.n for one in head.tenants.values()))
        if kept_from <= first or not await self._client.call(
            "XRANGE", names.SEAL_CHAIN_KEY, f"{kept_from}-0", f"{kept_from}-0"
        ):
            return 0
        async with self._sealer.lock:
            await self._trim_client.run("trim", key=names.SEAL_CHAIN_KEY, args={"keep": kept_from})
        self._after_step("chain-trimmed")
        return kept_from - first
