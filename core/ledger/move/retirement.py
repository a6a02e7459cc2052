"""Retires one of two copies of a tenant that is in use on two ledgers, after an older copy of one was accepted.

Guarantee: a copy is retired only if everything that was charged on it counts on the other one. That holds if its
journal is the beginning of the other one's, apart from holds of that beginning that have expired or were cancelled
since: the other journal has their true ends. Otherwise the copy stays as it was. A retired copy is frozen as the source
of a move is, by an entry of its journal that is sealed. A run that did not end is continued by the next one.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

from core.errors import LedgerNotTrusted, UnknownTenant
from core.ledger import names
from core.ledger.archive.history_source import history_source
from core.ledger.hash_chain.chain import RawEntry, SealChain
from core.ledger.keys import MasterKey
from core.ledger.move.sides import Departure, Homes, LedgerSide, OpenWork, check_ledgers, seal, tenant_state
from core.ledger.move.tenant_keys import key_batches, serves_only
from core.ledger.pages import readable_entry
from core.move_errors import MoveRefused

_POLL_S = 0.25


class Retirement:
    """`retired`: the ledger whose copy is given up. `kept`: the one whose copy counts. `wait_s` limits the wait for
    holds and jobs that are open, and `settle_s` is how long every gateway may take to read the new home.

    Methods raise MoveRefused, LedgerNotTrusted, UnknownTenant, LedgerUnavailable, StoreUnavailable, and what `homes`
    raises.
    """

    def __init__(
        self,
        tenant: str,
        retired: LedgerSide,
        kept: LedgerSide,
        homes: Homes,
        master_key: MasterKey,
        *,
        wait_s: float,
        settle_s: float,
    ) -> None:
        self._tenant = names.check_tenant(tenant)
        self._retired = retired
        self._kept = kept
        self._homes = homes
        self._master_key = master_key
        self._wait_s = wait_s
        self._settle_s = settle_s
        self._departure = Departure(retired, tenant, token=secrets.token_hex(16), target=kept.name)

    async def run(self) -> int:
        """Retire the copy. Returns the number of its entries that are those of the other one. Use a new object for
        each call."""
        await check_ledgers(self._retired, self._kept, self._master_key)
        retired, kept = [await tenant_state(side.client, self._tenant) for side in (self._retired, self._kept)]
        if not retired.exists:
            raise UnknownTenant
        if not kept.is_active:
            raise MoveRefused(f"The tenant is not in use on the ledger {self._kept.name}.")
        if not retired.is_active and retired.away != self._kept.name:
            raise MoveRefused(f"The tenant is not in use on the ledger {self._retired.name}.")
        shared = 0
        if retired.is_active:
            shared = await self._freeze()
        else:
            await self._departure.take()
        await seal(self._retired)
        await self._homes.set_home(self._tenant, self._kept.name)
        await asyncio.sleep(self._settle_s)
        async for keys in key_batches(self._retired.client, self._tenant, serves_only):
            await self._departure.clean(keys)
        return shared

    async def _freeze(self) -> int:
        """Freeze the copy if nothing is open on it and everything that it charged counts on the other one."""
        work = await self._closed()
        try:
            shared = await self._compare(work.seq)
            frozen = await self._departure.freeze()
        except (MoveRefused, LedgerNotTrusted):
            await self._departure.reopen()
            raise
        if not frozen.frozen or frozen.seq != work.seq + 1:  # such as a limit that was changed meanwhile
            await self._departure.reopen()
            raise MoveRefused("The tenant was changed meanwhile. Run the command again.")
        return shared

    async def _closed(self) -> OpenWork:
        deadline = time.monotonic() + self._wait_s
        work = await self._departure.take()
        while work.holds or work.jobs:
            if time.monotonic() >= deadline:
                await self._departure.reopen()
                raise MoveRefused(f"This copy still has {work.holds} open holds and {work.jobs} unfinished jobs.")
            await asyncio.sleep(_POLL_S)
            work = await self._departure.check()
        return work

    async def _compare(self, last: int) -> int:
        """Return the number of the last entry that both journals begin with. Raises MoveRefused if a later one of the
        copy may have charged something."""
        kept_last = (await tenant_state(self._kept.client, self._tenant)).seq
        others = self._entries(self._kept, min(last, kept_last))
        shared, is_same = 0, True
        open_releases: set[str] = set()
        async for number, raw in self._entries(self._retired, last):
            other = await anext(others, None) if is_same else None
            is_same = is_same and other is not None and other[1] == raw
            entry = readable_entry(self._tenant, raw)
            if entry is None:
                raise LedgerNotTrusted(f"Entry {number} of the copy was not written by the ledger.")
            release = entry.release_id or ""
            if is_same:
                shared = number
                if entry.transition == "reserve":
                    open_releases.add(release)
            elif entry.transition not in ("expire", "cancel") or release not in open_releases:
                raise MoveRefused(
                    f"The ledger {self._kept.name} lacks entry {number} of this copy, which may have charged something "
                    "that does not count there. Compare both by `ledger export`."
                )
            if entry.transition in ("commit", "expire", "cancel"):
                open_releases.discard(release)
        return shared

    async def _entries(self, side: LedgerSide, last: int) -> AsyncIterator[tuple[int, RawEntry]]:
        source = await history_source(side.client, SealChain(side.client, self._master_key), side.archive)
        number = 0
        async for batch in source.entries(self._tenant, 1, last):
            if isinstance(batch, str):
                raise LedgerNotTrusted(f"On the ledger {side.name}, {batch}.")
            for raw in batch:
                number += 1
                yield number, raw
