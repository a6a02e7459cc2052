"""Moves a tenant from one ledger to another, both under the same master key.

Guarantee: at every moment at most one of the two ledgers admits a release of the tenant, and everything that was
charged before counts there: a budget counts exactly once. This holds if the process ends at any step, if a run is
paused for any time, and if several runs are made at once. Another run continues one that did not end.

The steps: verify the journal on the source; refuse new holds; wait until the open ones and the jobs have ended; freeze
the tenant on the source and seal that; verify the rest and the accounts; copy everything to the target, where the
tenant is not in use yet; compare; write the tenant's new home; activate it on the target and seal that; remove from the
source what only served requests. docs/adr/0053-move-of-a-tenant.md has the proof.

Why at most one is active: the source is active only without `away`, and the target only without `arriving`. A run
activates the target only while the target has its token. It took that token after the source was frozen, and found its
own token on the source afterwards. An abort takes over the source first, then the target, where it ends if the tenant
is active or was used since, and reopens the source last. So either the run finds another token on the source and ends,
or it loses the one on the target before the source is reopened, or the abort ends.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from core.errors import LedgerNotTrusted, UnknownTenant
from core.ledger import names
from core.ledger.archive.history_source import history_source
from core.ledger.hash_chain.chain import JournalDigest, SealChain
from core.ledger.keys import MasterKey
from core.ledger.move.sides import (
    Arrival,
    Arrived,
    Departure,
    Homes,
    LedgerSide,
    TenantState,
    check_ledgers,
    record_fields,
    seal,
    tenant_state,
)
from core.ledger.move.source_journal import SourceJournal
from core.ledger.move.tenant_keys import copy_keys, differing_keys, key_batches, serves_only
from core.move_errors import MoveRefused

WAIT_S = 600.0
SETTLE_S = 2.0  # twice the interval at which gateways read the map of homes
_POLL_S = 0.25


@dataclass(frozen=True)
class MoveSummary:
    """What a run has done. All numbers are 0 if an earlier run had activated the tenant and this one removed keys.

    `closed_s`: how long this run kept the tenant from being served. `size`: of the values of the keys, in bytes.
    """

    tenant: str
    source: str
    target: str
    entries: int = 0
    keys: int = 0
    accounts: int = 0
    size: int = 0
    closed_s: float = 0.0


class TenantMove:
    """One move. `wait_s` limits the wait for holds and jobs that are open, and `settle_s` is how long the tenant rests
    after its new home was written, so that every gateway has read it. `report` is called before each step.

    Methods raise MoveRefused, LedgerNotTrusted, UnknownTenant, LedgerUnavailable, StoreUnavailable, and what `homes`
    raises.
    """

    def __init__(
        self,
        tenant: str,
        source: LedgerSide,
        target: LedgerSide,
        homes: Homes,
        master_key: MasterKey,
        *,
        wait_s: float = WAIT_S,
        settle_s: float = SETTLE_S,
        report: Callable[[str], object] = str,
    ) -> None:
        self._tenant = names.check_tenant(tenant)
        self._source = source
        self._target = target
        self._homes = homes
        self._master_key = master_key
        self._wait_s = wait_s
        self._settle_s = settle_s
        self._report = report
        token = secrets.token_hex(16)
        self._departure = Departure(source, tenant, token=token, target=target.name)
        self._arrival = Arrival(target, tenant, token=token, source=source.name)

    async def run(self) -> MoveSummary:
        """Move the tenant, or continue a move that did not end. Use a new object for each call.

        If holds or jobs are still open after `wait_s`, the tenant is served on the source again, and this raises
        MoveRefused.
        """
        self._report("checking")
        await check_ledgers(self._source, self._target, self._master_key)
        if await self._is_activated():
            await self._homes.set_home(self._tenant, self._target.name)
            if await self._departure.take_over():
                await self._clean()
            return MoveSummary(self._tenant, self._source.name, self._target.name)
        self._report("verifying")
        journal = SourceJournal(self._source, self._tenant, self._master_key)
        await journal.read_sealed()
        if (await tenant_state(self._target.client, self._tenant)).away is not None:
            await self._check_beginning(journal)
        self._report("closing")
        began = time.monotonic()
        last = await self._freeze()
        self._report("copying")
        await seal(self._source)
        await journal.read_rest(last)
        arrived = await self._arrival.begin()
        if not (await self._departure.check()).frozen:
            raise MoveRefused("Another run of the move has taken over.")
        keys, size = await self._copy(journal, arrived, last)
        await self._compare(journal, last)
        self._report("activating")
        await self._arrival.check()
        await self._homes.set_home(self._tenant, self._target.name)
        await asyncio.sleep(self._settle_s)
        await self._target.client.call("SADD", names.TENANTS_KEY, self._tenant)
        await self._arrival.activate()
        closed_s = time.monotonic() - began
        self._report("sealing")
        await seal(self._target)
        accounts = int(await self._source.client.call("ZCARD", names.accounts_key(self._tenant)))
        await self._clean()
        return MoveSummary(self._tenant, self._source.name, self._target.name, last, keys, accounts, size, closed_s)

    async def abort(self) -> None:
        """Serve the tenant on the source again. Possible until it is active on the target; see MoveRefused.

        A tenant that has been on the target before leaves a complete frozen copy there, as an earlier move did.
        """
        await check_ledgers(self._source, self._target, self._master_key)
        await self._check_home()
        self._report("clearing")
        taken = await self._departure.take_over()
        work = await self._departure.check() if taken else None
        frozen = work is not None and work.frozen
        # Only now, because until then another run could activate the tenant.
        target = await tenant_state(self._target.client, self._tenant)
        if target.is_active and (frozen or not taken):
            raise MoveRefused("The tenant is in use on the target. Move it back instead.")
        if work is not None and work.frozen and target.seq > work.seq:
            raise MoveRefused("The tenant has been in use on the target since. Finish or abort the move from there.")
        if not target.is_active:  # else the source was closed, and the target has another tenant of this name
            await self._withdraw(frozen=frozen)
            if await self._homes.home(self._tenant) == self._target.name:
                await self._homes.set_home(self._tenant, self._source.name)
                await asyncio.sleep(self._settle_s)
        self._report("reopening")
        if taken:
            await self._departure.reopen()
            await seal(self._source)

    async def _is_activated(self) -> bool:
        """Whether the tenant is active on the target already. Raises MoveRefused if it cannot be moved at all."""
        home = await self._check_home()
        source, target = await self._states()
        if target.arriving not in (None, self._source.name):
            raise MoveRefused("The tenant is arriving on the target from another ledger. Abort that move.")
        left = source.away == self._target.name
        if target.is_active:
            if not left or source.arriving is not None:
                raise MoveRefused("The target has a tenant of this name.")
            return True
        if home == self._target.name and not left and source.is_active and target.arriving is None:
            await self._homes.set_home(self._tenant, self._source.name)  # by a run that was paused during an abort
        return False

    async def _check_home(self) -> str:
        home = await self._homes.home(self._tenant)
        if home not in (self._source.name, self._target.name):
            raise MoveRefused(f"The tenant lives on the ledger {home}.")
        if not (await tenant_state(self._source.client, self._tenant)).exists:
            raise UnknownTenant
        return home

    async def _states(self) -> tuple[TenantState, TenantState]:
        target = await tenant_state(self._target.client, self._tenant)
        return await tenant_state(self._source.client, self._tenant), target

    async def _check_beginning(self, journal: SourceJournal) -> None:
        """The journal of a tenant that comes back must be the beginning of the one on the source."""
        client = self._target.client
        seq = int(await client.call("HGET", names.tenant_key(self._tenant), "seq") or 0)
        expected = JournalDigest()
        async for batch in journal.history.source.entries(self._tenant, 1, seq):
            if not isinstance(batch, str):
                expected.add(batch)
        if await self._target_digest(seq) != expected.hexdigest():
            raise LedgerNotTrusted(
                "The journal that the tenant left on the target is not the beginning of its journal."
            )

    async def _target_digest(self, last: int) -> str:
        chain = SealChain(self._target.client, self._master_key)
        source = await history_source(self._target.client, chain, self._target.archive)
        digest = JournalDigest()
        async for batch in source.entries(self._tenant, 1, last):
            if isinstance(batch, str):
                raise LedgerNotTrusted(f"On the ledger {self._target.name}, {batch}.")
            digest.add(batch)
        return digest.hexdigest()

    async def _freeze(self) -> int:
        """Close the tenant, and freeze it once nothing is open. Returns the number of its last entry."""
        deadline = time.monotonic() + self._wait_s
        work = await self._departure.take()
        while not work.frozen:
            work = await self._departure.freeze()
            if not work.frozen:
                if time.monotonic() >= deadline:
                    await self._departure.reopen()
                    raise MoveRefused(
                        f"The tenant still has {work.holds} open holds and {work.jobs} unfinished jobs. It is served "
                        "on its ledger as before."
                    )
                await asyncio.sleep(_POLL_S)
        return work.seq

    async def _copy(self, journal: SourceJournal, arrived: Arrived, last: int) -> tuple[int, int]:
        source, target = self._source.client, self._target.client
        if arrived.last > last:
            raise LedgerNotTrusted("The journal on the target has entries that the tenant does not have.")
        async for keys in key_batches(target, self._tenant):
            await self._arrival.clear(keys)
        async for batch in journal.history.source.entries(self._tenant, arrived.last + 1, last):
            if isinstance(batch, str):
                raise LedgerNotTrusted(f"On the ledger {self._source.name}, {batch}.")
            await self._arrival.entries(batch)
        copied = await copy_keys(source, self._tenant, self._arrival)
        await self._arrival.record(await record_fields(source, self._tenant))
        return copied.keys, copied.size

    async def _compare(self, journal: SourceJournal, last: int) -> None:
        """The target must have the verified journal, and every key and the record as the source has them.

        The accounts on the source match that journal, so those on the target do.
        """
        source, target = self._source.client, self._target.client
        fields = await record_fields(target, self._tenant)
        if await self._target_digest(last) != journal.digest:
            raise LedgerNotTrusted("The journal on the target is not the one of the source.")
        if fields != await record_fields(source, self._tenant) or int(fields[b"seq"]) != last:
            raise LedgerNotTrusted("The record on the target is not the one of the source.")
        differing = await differing_keys(source, target, self._tenant)
        if differing:
            raise LedgerNotTrusted(f"{len(differing)} keys on the target are not those of the source.")

    async def _withdraw(self, *, frozen: bool) -> None:
        """Remove what has arrived on the target. A tenant that was to come back leaves a complete frozen copy there."""
        arrived = await self._arrival.take_over()
        if arrived is None:
            return
        if not arrived.returns:
            async for batch in key_batches(self._target.client, self._tenant):
                await self._arrival.clear(batch)
        elif frozen:  # before that, nothing was copied
            await self._complete(arrived, (await self._departure.check()).seq)
        await self._arrival.withdraw()

    async def _complete(self, arrived: Arrived, last: int) -> None:
        """Complete the frozen copy of a tenant that was to come back."""
        await seal(self._source)
        journal = SourceJournal(self._source, self._tenant, self._master_key)
        await journal.read_sealed()
        await journal.read_rest(last)
        await self._copy(journal, arrived, last)
        await self._compare(journal, last)

    async def _clean(self) -> None:
        """Remove what only served requests. The record, the accounts and the journal stay: they are sealed there."""
        self._report("cleaning")
        async for keys in key_batches(self._source.client, self._tenant, serves_only):
            await self._departure.clean(keys)
