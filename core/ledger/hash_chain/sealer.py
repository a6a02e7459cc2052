"""Seals the ledger, and rejects a ledger that does not match its seals.

A sealing round reads, for every tenant, the entries since its last seal. It verifies that these entries explain how
the tenant's own accounts changed, and writes one seal over all tenants. Then it writes the number of that seal into the
epoch file.
"""

import asyncio
import contextlib
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

from core.errors import BlobError, InvalidInput, LedgerError, LedgerNotTrusted, LedgerUnavailable, UnknownTenant
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.hash_chain.chain import ChainHead, Head, JournalDigest, RawEntry, Seal, SealChain, SealId, Segment
from core.ledger.hash_chain.epoch import Continues, Epoch, EpochFile, EpochStore, verify_epoch
from core.ledger.hash_chain.replay import JournalReplay
from core.ledger.pages import OWN_ACCOUNTS, entry_number, raw_entries, read_accounts, readable_entry
from core.ledger.records import account_states
from core.ledger.tenant_rounds import TENANT_BATCH, TenantPosition, in_parts
from core.master_key import MasterKey
from core.redis import names
from core.redis.client import Call, LedgerClient

ATTEMPTS = 5
_REPEATS_MAX = 200  # tenants that a seal repeats; more only if there are very many
AUDIT = "`privacy-gateway ledger audit` shows where"

ReadPositions = Callable[[], Awaitable[Mapping[str, TenantPosition]]]


class UnsealedEntries:
    """Reads and verifies what each tenant wrote since its last seal. Raises LedgerNotTrusted, LedgerUnavailable."""

    def __init__(self, client: LedgerClient, chain: SealChain) -> None:
        self._client = client
        self._chain = chain

    async def segments(
        self,
        head: ChainHead,
        *,
        every: bool = False,
        positions: Mapping[str, TenantPosition] | None = None,
        repeat_before: int = 0,
        repeat_max: int = 0,
    ) -> tuple[Segment, ...]:
        """Return what each tenant wrote since its last seal, verified. `every` also verifies unchanged accounts.

        `positions` are those of all tenants, read after `head`; by default they are read now. A tenant whose last
        segment is in a seal before number `repeat_before` gets a segment even without new entries, but at most
        `repeat_max` of them, those with the oldest seals first.
        """
        if positions is None:
            positions = await self._positions()
        for tenant in head.tenants.keys() - positions.keys():
            raise LedgerNotTrusted(f"The tenant {tenant} was sealed and is no longer listed; {AUDIT}.")
        seals: dict[int, Seal] = {head.seal.id.n: head.seal} if head.seal else {}
        due = sorted((one.n, tenant) for tenant, one in head.tenants.items() if one.n < repeat_before)
        repeated = {tenant for _, tenant in due[:repeat_max]}
        segments = []
        for tenant in sorted(positions):
            seq, sealed = positions[tenant].seq, head.tenants.get(tenant)
            if not seq and sealed is None:
                continue  # the name of an interrupted `open_tenant`
            if sealed is not None and seq < sealed.last:
                raise LedgerNotTrusted(
                    f"The tenant {tenant} is at entry {seq} and was sealed up to {sealed.last}; {AUDIT}."
                )
            repeats = tenant in repeated
            if every or repeats or sealed is None or seq > sealed.last:
                segment = await self._segment(tenant, sealed, seals)
                segments += [segment] if segment.is_new or repeats else []
        return tuple(segments)

    async def _positions(self) -> dict[str, TenantPosition]:
        tenants = sorted(name.decode() for name in await self._client.call("SMEMBERS", names.TENANTS_KEY))
        found: dict[str, TenantPosition] = {}
        for start in range(0, len(tenants), TENANT_BATCH):
            batch = tenants[start : start + TENANT_BATCH]
            numbers = await self._client.call_many([("HGET", names.tenant_key(tenant), "seq") for tenant in batch])
            found |= {tenant: TenantPosition(int(n or 0)) for tenant, n in zip(batch, numbers, strict=True)}
        return found

    async def _segment(self, tenant: str, sealed: Head | None, seals: dict[int, Seal]) -> Segment:
        """Return the entries since the last seal, after verifying that they explain the accounts."""
        try:
            page = await read_accounts(self._client, tenant, listed=OWN_ACCOUNTS)
        except UnknownTenant:
            raise LedgerNotTrusted(f"The record of the tenant {tenant} is missing; {AUDIT}.") from None
        if page.faults:
            raise LedgerNotTrusted(f"Of the tenant {tenant}, {page.faults[0]}; {AUDIT}.")
        before = await self._last_segment(tenant, sealed, seals) if sealed else None
        if before is None:
            replay = JournalReplay(tenant, own_accounts_only=True)
        else:
            states = account_states(tenant, before.accounts)
            replay = JournalReplay.since(tenant, states, seq=before.last)
        first = replay.last_seq + 1
        digest, end = JournalDigest(), JournalDigest()
        async for batch in raw_entries(self._client, tenant, after=replay.last_seq, last=page.seq):
            unreadable = await _apply(replay, digest, batch)
            if unreadable is not None:
                raise LedgerNotTrusted(
                    f"Entry {unreadable} of the tenant {tenant} was not written by the ledger; {AUDIT}."
                )
            end = JournalDigest(batch[-1:])
        replay.compare(page.states)
        if not replay.report(last_seq=page.seq).ok:
            since = f"since seal {sealed.n}" if sealed else "from its beginning"
            raise LedgerNotTrusted(
                f"The journal of the tenant {tenant} {since} does not explain its accounts; {AUDIT}."
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
            f"Entry {segment.last} of the tenant {tenant} is not the one that seal {sealed.n} sealed; {AUDIT}."
        )


async def _apply(replay: JournalReplay, digest: JournalDigest, batch: Sequence[RawEntry]) -> int | None:
    """Apply the entries. Returns the number of the first that cannot be read."""
    async for raw in in_parts(batch):
        digest.add([raw])
        entry = readable_entry(replay.tenant, raw, subjects=False)
        if entry is None:
            return entry_number(raw)
        replay.apply(entry)
    return None


class SealingLease(Protocol):
    """The lease under which one gateway seals for all of them. `core.state.gateways` has it."""

    @property
    def fence(self) -> str | None:
        """The fencing number, while this process holds the lease."""

    async def release(self) -> None:
        """End the lease, so that another gateway takes it."""


class Sealer:
    """Writes one gateway's seals and remembers the last. Methods may raise LedgerUnavailable.

    LedgerNotTrusted means that the data in Redis does not match the seals: it is an older copy, an entry was changed or
    is missing, or the journal does not explain an account. If `seal`, `follow` or `verify_connection` raises it, it
    also stops the client: every later call of this process fails.
    """

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        epoch_file: Path,
        *,
        epoch_store: EpochStore | None = None,
        continues: Continues | None = None,
        repeat_after: int | None = None,
    ) -> None:
        """`epoch_store`: a second place of the epoch, which all gateways share. `check` may then raise
        StoreUnavailable. `continues` reads archived seals (`LedgerArchive.continues`). A seal repeats the accounts of
        some tenants that wrote nothing for `repeat_after` seals, so that no tenant needs an old seal.
        """
        self.lock = asyncio.Lock()  # held while this process reads what a seal needs; no entry is removed then
        self._client = client
        self._continues = continues
        self._repeat_after = repeat_after
        self._store = epoch_store
        self._stored = SealId()  # the last seal that this process has seen in the store, or has written to it
        self._master_key = master_key
        self._chain = SealChain(client, master_key)
        self._unsealed = UnsealedEntries(client, self._chain)
        self._admin_log = AdminLog(client, master_key)
        self._file = EpochFile(epoch_file)
        self._ledger = ""
        self._head: ChainHead | None = None  # the end of the chain when this process last read or wrote all of it
        self._seen = SealId()  # the last seal that this process has seen, which may be a later one

    async def check(self) -> None:
        """Reject a ledger that is older than the epoch, or that contradicts its seals and journals. Call this at start.

        Reads the last seal of every tenant and the entries since then. The audit checks the whole history. The only
        write is the id of a ledger that has none.
        """
        with _unreadable_is_untrusted():
            for epoch in await self._epochs():
                await verify_epoch(self._client.call, epoch, self._master_key, self._continues)
            self._ledger = await self._chain.ledger_id() or await self._chain.name_ledger(secrets.token_hex(16))
            head = await self._checked_head()
        self._head, self._seen = head, head.id

    async def _checked_head(self) -> ChainHead:
        """Return the end of the chain, after verifying every tenant. Reads again what another process has moved."""
        attempts = 1
        while True:
            head = await self._chain.head()
            self._of_this_ledger(head.seal)
            try:
                with _unreadable_is_untrusted():
                    await self._unsealed.segments(head, every=True)
                return head
            except LedgerNotTrusted:
                if attempts == ATTEMPTS or not await self.has_moved(head):
                    raise
                attempts += 1

    async def seal(
        self, *, always: bool = False, lease: SealingLease | None = None, positions: ReadPositions | None = None
    ) -> int | None:
        """Run one sealing round. Returns the seal's number, or None if nothing was new or another gateway sealed it.

        With `always` a seal is written in any case, so that the epoch advances. With `lease` it is written only while
        this process holds that lease. A ledger that is not trusted ends the lease, so that another gateway looks soon.
        `positions` reads those of all tenants at less cost than their records. Call `check` first.
        """
        async with self.lock, self._stops_an_untrusted_client(lease):
            for _ in range(ATTEMPTS if always else 1):
                fence = None if lease is None else lease.fence
                if lease is not None and fence is None:
                    return None
                head = await self._current_head()
                # Read after the end of the chain: a position from before could be behind a seal of another process.
                segments = await self._segments(head, positions=await positions() if positions else None)
                if segments is None:
                    continue
                if not always and not any(segment.is_new for segment in segments):
                    await self._remember(head)
                    return None
                sealed = await self._append(head, segments, fence=fence)
                if sealed is not None:
                    await self._remember(sealed)
                    return sealed.id.n
        if always:
            raise LedgerUnavailable("Other gateways keep sealing the ledger, so this one could not add a seal.")
        return None

    async def current_head(self) -> ChainHead:
        """Return the end of the chain, verified as in a sealing round. Call `check` first."""
        async with self._stops_an_untrusted_client():
            return await self._current_head()

    async def follow(self) -> None:
        """Verify that the chain continues from the last seal seen, and advance the epoch. Reads no tenant.

        For a gateway that does not hold the lease, at the interval of the seals. Call `check` first.
        """
        async with self._stops_an_untrusted_client():
            seal = await self._chain.last_seal()
            if (seal.id if seal else SealId()) == self._seen:
                return
            if self._seen.n:
                await self._verify_seen(self._client.call)
            if seal is not None:
                self._of_this_ledger(seal)
                await self._advance(seal.id)

    async def verify_connection(self, call: Call) -> None:
        """Reject a server that does not continue from the last seal that this process saw.

        `call` sends a command to that server. Use this for every new connection: it may lead to another server, or to
        the same server with an older file.
        """
        if not self._seen.n:
            return
        try:
            with _unreadable_is_untrusted():
                await self._verify_seen(call)
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
            epochs = await self._epochs()
            if not epochs:
                raise LedgerUnavailable(f"There is no epoch file {self._file.path}, so no restore needs acceptance.")
            epoch = max(epochs, key=lambda one: one.seal.n)
            try:
                for one in epochs:
                    await verify_epoch(self._client.call, one, self._master_key, self._continues)
            except LedgerNotTrusted:
                pass
            else:
                return None
            self._ledger = await self._chain.name_ledger(epoch.ledger)
            if self._ledger != epoch.ledger:
                raise LedgerUnavailable("The epoch file belongs to another ledger. Set EPOCH_FILE to the right one.")
            head = await self._chain.head()
            self._of_this_ledger(head.seal)
            segments = await self._unsealed.segments(head, every=True)
            number = max(epoch.seal.n, head.id.n) + 1
            sealed = await self._append(head, segments, n=number, restored=epoch.seal)
        if sealed is None:
            raise LedgerUnavailable("A gateway seals this ledger at the same time. Stop the gateway first.")
        await self._remember(sealed)
        await self.store_epoch()
        return number

    async def store_epoch(self) -> None:
        """Write the last seal that this process has seen to the shared store, unless it is there.

        Raises StoreUnavailable. The epoch file is written with each seal; this is for longer intervals.
        """
        seen = self._seen
        if self._store is not None and seen.n > self._stored.n:
            await self._store.write(Epoch(self._ledger, seen))
            self._stored = seen

    async def _epochs(self) -> list[Epoch]:
        """Return the epochs of the file and of the store."""
        stored = await self._store.read() if self._store is not None else None
        if stored is not None:
            self._stored = stored.seal
        return [epoch for epoch in (self._file.read(), stored) if epoch is not None]

    async def _current_head(self) -> ChainHead:
        """Return the current end of the chain, after verifying that it continues from the last known end."""
        if self._head is None:
            raise RuntimeError("check the ledger before sealing it")
        head = await self._chain.head(self._head)
        if head is not self._head:
            if self._seen.n:
                await self._verify_seen(self._client.call)
            self._of_this_ledger(head.seal)
        return head

    async def _verify_seen(self, call: Call) -> None:
        """Verify that the server continues from the last seal seen, which may be in the archive by now."""
        try:
            await verify_epoch(call, Epoch(self._ledger, self._seen), self._master_key, self._continues)
        except BlobError as error:
            raise LedgerUnavailable("The archive has seals that the check needs, and it cannot be read.") from error

    async def has_moved(self, head: ChainHead) -> bool:
        """Whether genuine seals follow `head`. Then another process may have removed what the end before needed."""
        try:
            with _unreadable_is_untrusted():
                return (await self._chain.head(head)).id.n > head.id.n
        except LedgerNotTrusted:
            return False

    async def _segments(
        self, head: ChainHead, *, positions: Mapping[str, TenantPosition] | None = None
    ) -> tuple[Segment, ...] | None:
        """Return what a seal after `head` contains; None if that was not found and the chain has moved since."""
        after = self._repeat_after
        try:
            with _unreadable_is_untrusted():
                return await self._unsealed.segments(
                    head,
                    positions=positions,
                    repeat_before=0 if after is None else head.id.n - after,
                    repeat_max=0 if after is None else max(_REPEATS_MAX, math.ceil(len(head.tenants) / after)),
                )
        except LedgerNotTrusted:
            if await self.has_moved(head):
                return None
            raise

    def _of_this_ledger(self, seal: Seal | None) -> None:
        if seal is not None and seal.ledger != self._ledger:
            raise LedgerNotTrusted("The seals in Redis are those of another ledger.")

    async def _append(
        self,
        head: ChainHead,
        segments: tuple[Segment, ...],
        *,
        n: int | None = None,
        restored: SealId | None = None,
        fence: str | None = None,
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
            fence=fence,
        )

    async def _remember(self, head: ChainHead) -> None:
        if head is not self._head or head.id != self._seen or self._file.read() is None:
            await self._advance(head.id)
        self._head = head

    async def _advance(self, seal: SealId) -> None:
        """Write the epoch after Redis has the seal. A crash between the two writes then blocks nothing."""
        if seal.n:
            await asyncio.to_thread(self._file.write, Epoch(self._ledger, seal))
        self._seen = seal

    @asynccontextmanager
    async def _stops_an_untrusted_client(self, lease: SealingLease | None = None) -> AsyncIterator[None]:
        try:
            with _unreadable_is_untrusted():
                yield
        except LedgerNotTrusted as error:
            if lease is not None:
                with contextlib.suppress(LedgerError):
                    await lease.release()
            self._client.stop(error.detail)
            raise
        except LedgerUnavailable as error:
            if self._client.is_stopped:  # a new connection has found it
                raise LedgerNotTrusted(error.detail) from error
            raise


@contextmanager
def _unreadable_is_untrusted() -> Iterator[None]:
    """Convert parsing errors to LedgerNotTrusted: the ledger did not write such a seal, record or file."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, InvalidInput) as error:
        raise LedgerNotTrusted(f"A record of the ledger cannot be read; {AUDIT}.") from error
