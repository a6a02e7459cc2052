"""Subjects' accounts in the order of what remains of them, so that a page of those near their limit reads no others.

Transitions do no extra work for the ranks. `rank_all`, called regularly, reads the journal's new entries and writes the
rank of each account that they debit (rank.lua). A rank is the epsilon of one more pure release, in nano, after what was
spent. Open holds do not count in it: a refund leaves no trace in the journal of which subject it concerned.

What was spent never decreases and no limit increases. Therefore a rank that is not up to date is too high, and an
account that is listed as near its limit is near its limit.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.accounting.events import Unit
from core.errors import InvalidInput, LedgerUnavailable, UnknownTenant
from core.ledger.archive.store import LedgerArchive
from core.ledger.hash_chain.chain import RawEntry
from core.ledger.pages import ACCOUNT_BATCH, ENTRY_BATCH, entry_number, read_accounts
from core.ledger.reader import ACCOUNTS_PAGE_MAX, LedgerReader
from core.ledger.records import AccountState, TenantMode, journal_entry
from core.ledger.tenant_rounds import Done, TenantPosition, over_tenants
from core.redis import names
from core.redis.client import LedgerClient

_ROWS_MAX = 2000  # of one update; a single entry may have more
_LENGTH = 16  # digits of the largest limit in nano
_LARGEST = 10**_LENGTH - 1
_CURSOR = re.compile(rf"[0-9]{{{_LENGTH}}}:[0-9a-f]{{64}}")


@dataclass(frozen=True)
class RankedPage:
    """Subjects' accounts by rank, the least remaining first, as they are now. `cursors` continue after each of them.

    `up_to_date`: every entry of the journal was ranked when the page was read. `next_cursor` is None after the last.
    """

    accounts: tuple[AccountState, ...]
    cursors: tuple[str, ...]
    up_to_date: bool
    next_cursor: str | None


class SubjectRanks(LedgerReader):
    """Ranks subjects' accounts, and reads them in that order."""

    def __init__(self, client: LedgerClient, *, archive: LedgerArchive | None = None) -> None:
        super().__init__(client, archive=archive)
        self._done = Done()

    async def rank_all(self, positions: Mapping[str, TenantPosition] | None = None) -> int:
        """Rank what every tenant has spent since the last call. Returns the number of entries read.

        Any number of processes may call this, regularly. `positions` are those of all tenants, as TenantActivity
        returns them: tenants without new entries then cost nothing. If the journal of one tenant cannot be read, the
        others are still ranked. The error is raised at the end.
        """
        if positions is None:
            return await over_tenants(await self._client.tenants(), self.rank)
        self._done.keep(positions)
        return await over_tenants(self._done.pending(positions), lambda one: self._rank_to(one, positions[one]))

    async def _rank_to(self, tenant: str, position: TenantPosition) -> int:
        read, mode, ranked = 0, TenantMode.TENANT.value, 0
        if position.seq:  # else it is the name of an interrupted `open_tenant`
            read = await self.rank(tenant)
            mode, _, ranked = await self._position(tenant)
        if mode != TenantMode.SUBJECT or ranked >= position.seq:  # or another process is still ranking
            self._done.note(tenant, position)
        return read

    async def rank(self, tenant: str) -> int:
        """Rank what the tenant has spent up to this moment. Returns the number of entries that this call read."""
        read, target = 0, None
        while True:
            mode, seq, ranked = await self._position(tenant)
            target = seq if target is None else target
            if mode != TenantMode.SUBJECT or ranked >= target:
                return read
            raw = await self._raw_entries(tenant, after=ranked, count=ENTRY_BATCH, last=target)
            if not raw:
                return read
            last, debited = await asyncio.to_thread(_debited, tenant, raw)
            states = await self._listed(tenant, debited)
            rows = await asyncio.to_thread(lambda states: [_row(state) for state in states], states)
            found, _ = await self._client.run(
                "rank", key=names.tenant_key(tenant), args={"expected": ranked, "ranked": last, "rows": rows}
            )
            if found["outcome"] == "moved":
                return read  # another process continues
            read += last - ranked

    async def page(
        self, tenant: str, unit: Unit, *, below_nano: int | None = None, cursor: str | None = None, limit: int
    ) -> RankedPage:
        """Return up to `limit` accounts of one unit after `cursor`, of which less than `below_nano` remains.

        Reads only the accounts of the page. An account whose rank changes between two pages may be on both or on none.
        Raises InvalidInput for a malformed cursor, UnknownTenant.
        """
        if not 0 < limit <= ACCOUNTS_PAGE_MAX:
            raise ValueError(f"a page has 1 to {ACCOUNTS_PAGE_MAX} accounts")
        if cursor is not None and not _CURSOR.fullmatch(cursor):
            raise InvalidInput("`cursor` must be the `next_cursor` of the previous page.", field="cursor")
        mode, seq, ranked = await self._position(tenant)
        first = "-" if cursor is None else f"({cursor}"
        last = "+" if below_nano is None else f"({_text(below_nano)}"
        found = await self._client.call(
            "ZRANGEBYLEX", names.ranks_key(tenant, unit), first, last, "LIMIT", 0, limit + 1
        )
        members = [member.decode() for member in found[:limit]]
        listed = [names.account_name(unit, member.partition(":")[2]) for member in members]
        return RankedPage(
            accounts=await self._listed(tenant, listed),
            cursors=tuple(members),
            up_to_date=ranked >= seq or mode != TenantMode.SUBJECT,
            next_cursor=members[-1] if len(found) > limit else None,
        )

    async def _position(self, tenant: str) -> tuple[str, int, int]:
        """Return the tenant's mode, its last entry, and the last one that was ranked. Raises UnknownTenant."""
        mode, seq, ranked = await self._client.call("HMGET", names.tenant_key(tenant), "mode", "seq", "ranked")
        if mode is None:
            raise UnknownTenant
        return mode.decode(), int(seq or 0), int(ranked or 0)

    async def _listed(self, tenant: str, listed: Sequence[str]) -> tuple[AccountState, ...]:
        """Return accounts by name. What was spent on never disappears: a missing account raises LedgerUnavailable."""
        states: list[AccountState] = []
        for start in range(0, len(listed), ACCOUNT_BATCH):
            read = await read_accounts(self._client, tenant, listed=listed[start : start + ACCOUNT_BATCH])
            if read.faults:
                raise LedgerUnavailable(
                    f"Of the tenant {tenant}, {read.faults[0]}; `privacy-gateway ledger audit` reports the details."
                )
            states += read.states
        return tuple(states)


def _debited(tenant: str, raw: Sequence[RawEntry]) -> tuple[int, list[str]]:
    """Return the last entry that one update takes, and the names of the subjects' accounts that have rows up to it."""
    listed: dict[str, None] = {}
    last = 0
    for one in raw:
        rows = [line for line in journal_entry(tenant, one).all_amounts if line.subject_hash is not None]
        if last and len(listed) + len(rows) > _ROWS_MAX:
            break
        listed |= dict.fromkeys(names.account_name(line.unit, line.subject_hash) for line in rows)
        last = entry_number(one)
    return last, list(listed)


def _row(state: AccountState) -> list[Any]:
    spent = replace(state, held_vector=(0,) * len(state.held_vector))
    return [state.unit.value, state.subject_hash, _text(spent.remaining.epsilon_nano)]


def _text(nano: int) -> str:
    return f"{min(nano, _LARGEST):0{_LENGTH}}"
