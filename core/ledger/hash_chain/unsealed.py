"""What each tenant wrote since its last seal, verified: the entries explain how the tenant's own accounts changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.errors import LedgerNotTrusted, UnknownTenant
from core.ledger import names, wire
from core.ledger.activity import TenantPosition
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import ChainHead, Head, JournalDigest, RawEntry, Seal, SealChain, Segment
from core.ledger.hash_chain.replay import JournalReplay
from core.ledger.pages import entry_number, own_accounts, raw_entries, readable_entry
from core.ledger.parts import in_parts

TENANT_BATCH = 250
AUDIT = "`privacy-gateway ledger audit` shows where"


class UnsealedEntries:
    """Reads and verifies them. Raises LedgerNotTrusted, LedgerUnavailable."""

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
            page = await own_accounts(self._client, tenant)
        except UnknownTenant:
            raise LedgerNotTrusted(f"The record of the tenant {tenant} is missing; {AUDIT}.") from None
        if page.faults:
            raise LedgerNotTrusted(f"Of the tenant {tenant}, {page.faults[0]}; {AUDIT}.")
        before = await self._last_segment(tenant, sealed, seals) if sealed else None
        if before is None:
            replay = JournalReplay(tenant, own_accounts_only=True)
        else:
            states = wire.account_states(tenant, before.accounts)
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
