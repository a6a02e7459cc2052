"""Seals the ledger, and rejects a ledger that does not match its seals.

A sealing round reads, for every tenant, the entries since its last seal. It verifies that these entries explain how
the tenant's own accounts changed, and writes one seal over all tenants. Then it writes the number of that seal into the
epoch file.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from core.errors import InvalidInput, LedgerNotTrusted, LedgerUnavailable, UnknownTenant
from core.ledger import names, wire
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.hash_chain.archived import CHAIN
from core.ledger.hash_chain.chain import (
    Archived,
    ChainHead,
    Head,
    JournalDigest,
    RawEntry,
    Seal,
    SealChain,
    SealId,
    Segment,
)
from core.ledger.hash_chain.epoch import Call, Continues, Epoch, EpochFile, verify_epoch
from core.ledger.hash_chain.replay import JournalReplay
from core.ledger.keys import MasterKey
from core.ledger.pages import entry_number, own_accounts, raw_entries, readable_entry

TENANT_BATCH = 250
ATTEMPTS = 5
_AUDIT = "`privacy-gateway ledger audit` shows where"


class Sealer:
    """Writes one gateway's seals and remembers the last. Methods may raise LedgerUnavailable.

    LedgerNotTrusted means that the data in Redis does not match the seals: it is an older copy, an entry was changed or
    is missing, or the journal does not explain an account. If `seal` or `verify_connection` raises it, it also stops
    the client: every later call of this process fails.
    """

    def __init__(
        self, client: LedgerClient, master_key: MasterKey, epoch_file: Path, *, continues: Continues | None = None
    ) -> None:
        """`continues` reads archived seals (`LedgerArchive.continues`)."""
        self._client = client
        self._continues = continues
        self._master_key = master_key
        self._chain = SealChain(client, master_key)
        self._admin_log = AdminLog(client, master_key)
        self._file = EpochFile(epoch_file)
        self._ledger = ""
        self._head: ChainHead | None = None

    async def check(self) -> None:
        """Reject a ledger that is older than the epoch, or that contradicts its seals and journals. Call this at start.

        Reads the last seal of every tenant and the entries since then. The audit checks the whole history. The only
        write is the id of a ledger that has none.
        """
        with _unreadable_is_untrusted():
            epoch = self._file.read()
            if epoch is not None:
                await verify_epoch(self._client.call, epoch, self._master_key, self._continues)
            self._ledger = await self._chain.ledger_id() or await self._chain.name_ledger(secrets.token_hex(16))
            head = await self._chain.head()
            self._of_this_ledger(head)
            await self._unsealed(head, every=True)
        self._head = head

    async def seal(self, *, always: bool = False) -> int | None:
        """Run one sealing round. Returns the seal's number, or None if nothing was new or another gateway sealed it.

        With `always` a seal is written in any case, so that the epoch advances. Call `check` first.
        """
        with self._distrust_stops_the_client():
            for _ in range(ATTEMPTS if always else 1):
                head = await self._current_head()
                segments = await self._unsealed(head)
                if not segments and not always:
                    await self._remember(head)
                    return None
                sealed = await self._append(head, segments)
                if sealed is not None:
                    await self._remember(sealed)
                    return sealed.id.n
        if always:
            raise LedgerUnavailable("Other gateways keep sealing the ledger, so this one could not add a seal.")
        return None

    async def current_head(self) -> ChainHead:
        """Return the end of the chain, verified as in a sealing round. Call `check` first."""
        with self._distrust_stops_the_client():
            return await self._current_head()

    async def record_archive(self, archived: Archived, *, repeat_before: int) -> ChainHead | None:
        """Write a seal that records archived ranges. Returns None if another process has recorded some of them first.

        The seal also repeats the accounts of each tenant whose last segment is in a seal before number `repeat_before`,
        so that the older seals are not needed to check a tenant.
        """
        with self._distrust_stops_the_client():
            for _ in range(ATTEMPTS):
                head = await self._current_head()
                if not _continues_archive(head, archived):
                    return None
                segments = await self._unsealed(head, repeat_before=repeat_before)
                sealed = await self._append(head, segments, archived=archived)
                if sealed is not None:
                    await self._remember(sealed)
                    return sealed
        raise LedgerUnavailable("Other gateways keep sealing the ledger, so this one could not add a seal.")

    @contextmanager
    def _distrust_stops_the_client(self) -> Iterator[None]:
        try:
            with _unreadable_is_untrusted():
                yield
        except LedgerNotTrusted as error:
            self._client.stop(error.detail)
            raise
        except LedgerUnavailable as error:
            if self._client.is_stopped:  # a new connection has found it
                raise LedgerNotTrusted(error.detail) from error
            raise

    async def verify_connection(self, call: Call) -> None:
        """Reject a server that does not continue from the last seal that this process saw.

        `call` sends a command to that server. Use this for every new connection: it may lead to another server, or to
        the same server with an older file.
        """
        if self._head is None or self._head.seal is None:
            return
        try:
            with _unreadable_is_untrusted():
                await verify_epoch(call, Epoch(self._ledger, self._head.id), self._master_key)
        except LedgerNotTrusted as error:
            self._client.stop(error.detail)
            raise

    async def accept_restore(self) -> int | None:
        """Accept a state older than the epoch. The operator asserts that nothing was released since that state.

        Writes a seal with a number above the epoch. It contains the last seal that the gateway had seen. Returns None
        if there is nothing to accept. Raises LedgerUnavailable if there is no epoch file, if the file belongs to
        another ledger, or if the older state is inconsistent.
        """
        with _unreadable_is_untrusted():
            epoch = self._file.read()
            if epoch is None:
                raise LedgerUnavailable(f"There is no epoch file {self._file.path}, so no restore needs acceptance.")
            try:
                await verify_epoch(self._client.call, epoch, self._master_key, self._continues)
            except LedgerNotTrusted:
                pass
            else:
                return None
            self._ledger = await self._chain.name_ledger(epoch.ledger)
            if self._ledger != epoch.ledger:
                raise LedgerUnavailable("The epoch file belongs to another ledger. Set EPOCH_FILE to the right one.")
            head = await self._chain.head()
            self._of_this_ledger(head)
            segments = await self._unsealed(head, every=True)
            number = max(epoch.seal.n, head.id.n) + 1
            sealed = await self._append(head, segments, n=number, restored=epoch.seal)
        if sealed is None:
            raise LedgerUnavailable("A gateway seals this ledger at the same time. Stop the gateway first.")
        await self._remember(sealed)
        return number

    async def _current_head(self) -> ChainHead:
        """Return the current end of the chain, after verifying that it continues from the last known end."""
        if self._head is None:
            raise RuntimeError("check the ledger before sealing it")
        head = await self._chain.head(self._head)
        if head is not self._head:
            if self._head.seal is not None:
                await verify_epoch(self._client.call, Epoch(self._ledger, self._head.id), self._master_key)
            self._of_this_ledger(head)
        return head

    def _of_this_ledger(self, head: ChainHead) -> None:
        if head.seal is not None and head.seal.ledger != self._ledger:
            raise LedgerNotTrusted("The seals in Redis are those of another ledger.")

    async def _append(
        self,
        head: ChainHead,
        segments: tuple[Segment, ...],
        *,
        n: int | None = None,
        restored: SealId | None = None,
        archived: Archived | None = None,
    ) -> ChainHead | None:
        at_ms = await self._client.now_ms()
        return await self._chain.append(
            head,
            ledger=self._ledger,
            at_ms=at_ms,
            segments=segments,
            admin=await self._admin_log.end(),
            n=n,
            restored=restored,
            archived=archived,
        )

    async def _remember(self, head: ChainHead) -> None:
        """Write the epoch after Redis has the seal. A crash between the two writes then blocks nothing."""
        if head.seal is not None and (head is not self._head or self._file.read() is None):
            await asyncio.to_thread(self._file.write, Epoch(self._ledger, head.id))
        self._head = head

    async def _unsealed(self, head: ChainHead, *, every: bool = False, repeat_before: int = 0) -> tuple[Segment, ...]:
        """Return what each tenant wrote since its last seal, verified. `every` also verifies unchanged accounts.

        A tenant whose last segment is in a seal before number `repeat_before` gets a segment even without entries.
        """
        listed = {name.decode() for name in await self._client.call("SMEMBERS", names.TENANTS_KEY)}
        for tenant in head.tenants.keys() - listed:
            raise LedgerNotTrusted(f"The tenant {tenant} was sealed and is no longer listed; {_AUDIT}.")
        tenants = sorted(listed)
        seals: dict[int, Seal] = {head.seal.id.n: head.seal} if head.seal else {}
        segments = []
        for start in range(0, len(tenants), TENANT_BATCH):
            batch = tenants[start : start + TENANT_BATCH]
            numbers = await self._client.call_many([("HGET", names.tenant_key(tenant), "seq") for tenant in batch])
            for tenant, number in zip(batch, numbers, strict=True):
                sealed = head.tenants.get(tenant)
                if number is None and sealed is None:
                    continue  # the name of an interrupted `open_tenant`
                seq = int(number or 0)
                if sealed is not None and seq < sealed.last:
                    raise LedgerNotTrusted(
                        f"The tenant {tenant} is at entry {seq} and was sealed up to {sealed.last}; {_AUDIT}."
                    )
                repeats = sealed is not None and sealed.n < repeat_before
                if every or repeats or sealed is None or seq > sealed.last:
                    segment = await self._segment(tenant, sealed, seals)
                    segments += [segment] if segment.is_new or repeats else []
        return tuple(segments)

    async def _segment(self, tenant: str, sealed: Head | None, seals: dict[int, Seal]) -> Segment:
        """Return the entries since the last seal, after verifying that they explain the accounts."""
        try:
            page = await own_accounts(self._client, tenant)
        except UnknownTenant:
            raise LedgerNotTrusted(f"The record of the tenant {tenant} is missing; {_AUDIT}.") from None
        if page.faults:
            raise LedgerNotTrusted(f"Of the tenant {tenant}, {page.faults[0]}; {_AUDIT}.")
        before = await self._last_segment(tenant, sealed, seals) if sealed else None
        if before is None:
            replay = JournalReplay(tenant, own_accounts_only=True)
        else:
            replay = JournalReplay.since(tenant, wire.account_states(tenant, before.accounts), seq=before.last)
        first = replay.last_seq + 1
        digest, end = JournalDigest(), JournalDigest()
        async for batch in raw_entries(self._client, tenant, after=replay.last_seq, last=page.seq):
            # In a thread, because an entry may have a thousand rows and the event loop serves requests.
            unreadable = await asyncio.to_thread(_apply, replay, digest, batch)
            if unreadable is not None:
                raise LedgerNotTrusted(
                    f"Entry {unreadable} of the tenant {tenant} was not written by the ledger; {_AUDIT}."
                )
            end = JournalDigest(batch[-1:])
        replay.compare(page.states)
        if not replay.report(last_seq=page.seq).ok:
            since = f"since seal {sealed.n}" if sealed else "from its beginning"
            raise LedgerNotTrusted(
                f"The journal of the tenant {tenant} {since} does not explain its accounts; {_AUDIT}."
            )
        end_digest = before.end if before is not None and page.seq < first else end.hexdigest()
        return Segment(tenant, first, page.seq, digest.hexdigest(), end_digest, page.rows)

    async def _last_segment(self, tenant: str, sealed: Head, seals: dict[int, Seal]) -> Segment:
        """Return the tenant's part of its last seal, after verifying that its last sealed entry is unchanged."""
        if sealed.n not in seals:
            seals[sealed.n] = await self._chain.seal(sealed.n)
        segment = seals[sealed.n].segment(tenant)
        if segment is None or segment.last != sealed.last:
            raise LedgerNotTrusted(f"Seal {sealed.n} does not contain entry {sealed.last} of the tenant {tenant}.")
        async for batch in raw_entries(self._client, tenant, after=segment.last - 1, last=segment.last):
            if JournalDigest(batch).hexdigest() == segment.end:
                return segment
        raise LedgerNotTrusted(
            f"Entry {segment.last} of the tenant {tenant} is not the one that seal {sealed.n} sealed; {_AUDIT}."
        )


def _continues_archive(head: ChainHead, archived: Archived) -> bool:
    """Whether the ranges follow those that are recorded already."""
    chain = head.seal.archived.chain if head.seal else SealId()
    ends = {tenant: one.archived for tenant, one in head.tenants.items()} | {CHAIN: chain.n}
    for range_ in archived.ranges:
        end = ends.get(range_.stream)
        if end is None or range_.first <= end or (range_.first > end + 1 and range_.stream != CHAIN):
            return False  # the numbers of seals may have a gap, those of entries have none
        ends[range_.stream] = range_.last
    return archived.chain.n >= chain.n


def _apply(replay: JournalReplay, digest: JournalDigest, batch: Sequence[RawEntry]) -> int | None:
    """Apply the entries. Returns the number of the first that cannot be read."""
    digest.add(batch)
    for raw in batch:
        entry = readable_entry(replay.tenant, raw, subjects=False)
        if entry is None:
            return entry_number(raw)
        replay.apply(entry)
    return None


@contextmanager
def _unreadable_is_untrusted() -> Iterator[None]:
    """Convert parsing errors to LedgerNotTrusted: the ledger did not write such a seal, record or file."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, InvalidInput) as error:
        raise LedgerNotTrusted(f"A record of the ledger cannot be read; {_AUDIT}.") from error
