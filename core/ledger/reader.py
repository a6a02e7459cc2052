"""Reads of the ledger: tenants, accounts and the journal. This module writes nothing."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgpack

from core.accounting.events import Unit
from core.errors import LedgerUnavailable, UnknownAccount, UnknownTenant
from core.ledger import wire
from core.ledger.archive.objects import TenantPart
from core.ledger.archive.store import LedgerArchive
from core.ledger.headroom import DebitedAccounts
from core.ledger.journal import (
    EVERY_ENTRY,
    JournalEntries,
    JournalFilter,
    JournalReads,
    JournalView,
    SubjectHistory,
    first_entry_at,
    subject_history,
)
from core.ledger.pages import OWN_ACCOUNTS, missing_fault, read_accounts
from core.ledger.records import AccountPage, AccountState, JournalPage, Tenant, TenantMode
from core.redis import names
from core.redis.client import LedgerClient


class SealPlaces:
    """Finds the seals of one tenant's entries: by an index that seal.lua writes, or in the objects of archived entries.

    The index is not authenticated. A seal that it names is shown to a reader of the journal; the audit and the export
    read the seals themselves.
    """

    def __init__(self, client: LedgerClient, tenant: str, archive: LedgerArchive | None = None) -> None:
        self._client = client
        self._tenant = tenant
        self._archive = archive

    async def of(self, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return the number of the seal of each entry. None: not sealed yet."""
        if not numbers:
            return {}
        key = names.segments_key(self._tenant)
        # One read covers entries that are near each other. An entry far from the others takes one of its own.
        rows = await self._client.call("ZRANGEBYSCORE", key, min(numbers), "+inf", "LIMIT", 0, len(numbers))
        found = self._among(numbers, rows)
        found |= await self._archived([number for number in numbers if found[number] is None])
        # A read that was not cut off by its limit has found all that there are.
        left = [number for number in numbers if found[number] is None] if len(rows) == len(numbers) else []
        single = await self._client.call_many([("ZRANGEBYSCORE", key, n, "+inf", "LIMIT", 0, 1) for n in left])
        return found | self._among(left, [row for rows in single for row in rows])

    async def _archived(self, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return the seals of archived entries, which their objects name. The archive has the first entries."""
        found: dict[int, int | None] = {}
        archived: TenantPart | None = None
        for number in sorted(numbers) if self._archive is not None else ():
            if self._archive is not None and (archived is None or number > archived.last):
                archived = await self._archive.part_at(self._tenant, number)
                if archived is None:
                    break
            found[number] = archived.seal_of(number) if archived is not None else None
        return found

    @staticmethod
    def _among(numbers: Sequence[int], rows: Sequence[bytes]) -> dict[int, int | None]:
        segments = sorted((*map(int, row.split(b":")),) for row in rows)
        lasts = [last for _, _, last in segments]
        found: dict[int, int | None] = {}
        for number in numbers:
            at = bisect_left(lasts, number)
            found[number] = segments[at][0] if at < len(segments) and segments[at][1] <= number else None
        return found


PAGE_LIMIT_MAX = 1000
PAGE_ROWS_MAX = 10_000
ACCOUNTS_PAGE_MAX = 200


def tenant_command(name: str) -> tuple[str, ...]:
    """Return the command whose reply `found_tenant` reads."""
    return ("HMGET", names.tenant_key(name), "mode", "created_ms")


def found_tenant(name: str, reply: Sequence[bytes | None]) -> Tenant:
    """Return the tenant of a reply. Raises UnknownTenant."""
    mode, created_ms = reply
    if mode is None:
        raise UnknownTenant
    return Tenant(name, TenantMode(mode.decode()), int(created_ms or 0))


class LedgerReader:
    """Every method raises LedgerUnavailable if Redis does not answer correctly."""

    def __init__(self, client: LedgerClient, *, archive: LedgerArchive | None = None) -> None:
        """`archive` has the entries that are no longer in Redis. Reads of them may raise errors of the blob store."""
        self._client = client
        self._archive = archive

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def tenant(self, name: str) -> Tenant:
        """Return a tenant. Raises UnknownTenant."""
        return found_tenant(name, await self._client.call(*tenant_command(name)))

    async def last_numbers(self, tenants: Sequence[str]) -> dict[str, int]:
        """Return the number of the last journal entry of each tenant; 0 for one that does not exist."""
        commands = [("HMGET", names.tenant_key(name), "seq") for name in tenants]
        replies = await self._client.call_many(commands)
        return {name: int(reply[0] or 0) for name, reply in zip(tenants, replies, strict=True)}

    async def tenants(self) -> tuple[Tenant, ...]:
        """Return all tenants, sorted by name."""
        found = []
        for name in await self._client.tenants():
            try:
                found.append(await self.tenant(name))
            except UnknownTenant:
                continue  # the name of an interrupted `open_tenant`
        return tuple(found)

    async def accounts(self, tenant: str) -> tuple[AccountState, ...]:
        """Return all accounts, in the order of `accounts_page`.

        The pages are read one after the other, so accounts on different pages show different moments. Raises
        UnknownTenant.
        """
        found: list[AccountState] = []
        cursor: str | None = None
        while True:
            page = await self.accounts_page(tenant, cursor=cursor)
            found += page.accounts
            cursor = page.next_cursor
            if cursor is None:
                return tuple(found)

    async def accounts_page(
        self, tenant: str, *, cursor: str | None = None, limit: int = ACCOUNTS_PAGE_MAX
    ) -> AccountPage:
        """Return the tenant's own accounts, then its subjects' by name, after `cursor`. One page is read atomically.

        Paging returns every account that was open at the first page exactly once. It may return accounts opened later.
        Raises InvalidInput for a malformed cursor, UnknownTenant.
        """
        if not 0 < limit <= ACCOUNTS_PAGE_MAX:
            raise ValueError(f"a page has 1 to {ACCOUNTS_PAGE_MAX} accounts")
        own, first = list(OWN_ACCOUNTS), "-"
        if cursor is not None and names.check_account_cursor(cursor) in own:
            own = own[own.index(cursor) + 1 :]
        elif cursor is not None:
            own, first = [], f"({cursor}"
        # Read one account more than the page has, to find out whether a next page exists.
        states = await self._states(
            tenant, listed=own[: limit + 1], between=(first, "+"), limit=limit + 1, subjects=True
        )
        if len(states) <= limit:
            return AccountPage(states, None)
        last = states[limit - 1]
        return AccountPage(states[:limit], names.account_name(last.unit, last.subject_hash))

    async def own_accounts(self, tenant: str) -> tuple[AccountState, ...]:
        """Return the tenant's own accounts, of one moment. Raises UnknownTenant."""
        return await self._states(tenant, listed=OWN_ACCOUNTS)

    async def account(self, tenant: str, account_id: str) -> AccountState:
        """Return one account by its id, such as `acme/sentence`. Raises UnknownAccount, UnknownTenant."""
        unit, subject = names.parse_account_id(tenant, account_id)
        if subject:
            after_the_last_digit = f"({unit.value}:{subject}g"
            states = await self._states(tenant, between=(f"[{unit.value}:{subject}", after_the_last_digit), limit=2)
        else:
            states = await self._states(tenant, listed=(unit.value,))
        if len(states) != 1:
            raise UnknownAccount
        return states[0]

    async def debited_accounts(self, tenant: str, account_id: str) -> DebitedAccounts:
        """Return one account by its id with the accounts of its owner and of the tenant, all of one moment.

        Accounts that a subject does not have yet are returned as its first release would open them. Raises
        UnknownAccount, UnknownTenant.
        """
        state = await self.account(tenant, account_id)
        subject = state.subject_hash
        listed = [names.account_name(unit, subject) for unit in Unit] if subject else []
        found = await read_accounts(self._client, tenant, listed=[*OWN_ACCOUNTS, *listed])
        if set(found.faults) - {missing_fault(tenant, name) for name in found.missing if name in listed}:
            raise self._unreadable(tenant, found.faults[0])
        states = {names.account_name(one.unit, one.subject_hash): one for one in found.states}
        if subject and names.account_name(state.unit, subject) not in states:
            raise UnknownAccount  # its only hold was refunded since
        fresh = await self._new_subject(tenant)
        return DebitedAccounts(
            account=states[names.account_name(state.unit, subject)],
            own={unit: states[unit.value] for unit in Unit},
            subject={
                unit: states.get(names.account_name(unit, subject)) or wire.new_subject_state(tenant, terms, subject)
                for unit, terms in fresh.items()
            }
            if subject
            else None,
            new_subject={unit: wire.new_subject_state(tenant, terms, None) for unit, terms in fresh.items()} or None,
        )

    async def _new_subject(self, tenant: str) -> dict[Unit, Any]:
        """Return the terms of a new subject's accounts; nothing in `tenant` mode."""
        fields = [f"subject:{unit.value}" for unit in Unit]
        found = await self._client.call("HMGET", names.tenant_key(tenant), *fields)
        return {unit: msgpack.unpackb(terms) for unit, terms in zip(Unit, found, strict=True) if terms is not None}

    async def journal(
        self,
        tenant: str,
        account_id: str | None = None,
        *,
        wanted: JournalFilter = EVERY_ENTRY,
        key_id: str | None = None,
        subject: str | None = None,
        newest_first: bool = False,
        last: int | None = None,
        cursor: int = 0,
        limit: int = 100,
        rows_max: int = PAGE_ROWS_MAX,
    ) -> JournalPage:
        """Return the entries after the number `cursor`, oldest first, of one account or of all accounts.

        `wanted` selects entries, `key_id` those of releases that one API key caused, and `subject`, the first 16 digits
        of a subject's hash, those of one subject among the entries of a tenant's own account. With `newest_first` the
        cursor 0 is the end of the journal. `last` is the last number that counts. One call reads entries with about
        `rows_max` rows of charges, and at most 10,000 entries. Therefore a page may be short or empty and still have a
        `next_cursor`. The entries are parsed in a thread. Entries of a tenant's own account lack the rows of subjects.
        Raises UnknownAccount, UnknownTenant.
        """
        if not (0 < limit <= PAGE_LIMIT_MAX and cursor >= 0 and rows_max > 0):
            raise ValueError(f"a page has 1 to {PAGE_LIMIT_MAX} entries after a cursor of at least 0")
        subject_hash = None
        if account_id is None:
            await self.tenant(tenant)
        else:
            of_subject = account_id if subject is None else f"{account_id}/{subject}"
            subject_hash = (await self.account(tenant, of_subject)).subject_hash
        if key_id is not None:
            wanted = replace(wanted, key_id=key_id)
        view = JournalView(account_id, subject_hash, wanted, newest_first, last=last)
        entries = JournalEntries(self._client, tenant, view, self._archive)
        return await entries.page(cursor=cursor, limit=limit, rows_max=rows_max)

    async def journal_end(self, tenant: str) -> int:
        """Return the number of the tenant's last entry."""
        return int(await self._client.call("HGET", names.tenant_key(tenant), "seq") or 0)

    async def seals_of(self, tenant: str, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return the seal of each entry."""
        return await SealPlaces(self._client, tenant, self._archive).of(numbers)

    async def now_ms(self) -> int:
        """Return the time of the Redis clock."""
        return await self._client.now_ms()

    async def first_entry_at(self, tenant: str, at_ms: int) -> int:
        """Return the number of the first entry at or after a time, or that of the next entry if there is none."""
        return await first_entry_at(self._client, tenant, at_ms, self._archive)

    async def subject_history(self, tenant: str, state: AccountState, *, first: int, rows_max: int) -> SubjectHistory:
        """Return what was spent on a subject's account since the entry `first` (`core.ledger.journal`)."""
        return await subject_history(self._client, tenant, state, first=first, rows_max=rows_max, archive=self._archive)

    async def _raw_entries(self, tenant: str, *, after: int, count: int, last: int) -> Sequence[Any]:
        return await JournalReads(self._client, tenant, self._archive).oldest(after + 1, last, count)

    async def _states(self, tenant: str, **which: Any) -> tuple[AccountState, ...]:
        """Return what `read_accounts` finds. Raises LedgerUnavailable for missing or unreadable accounts."""
        found = await read_accounts(self._client, tenant, history=True, **which)
        if found.faults:
            raise self._unreadable(tenant, found.faults[0])
        return found.states

    @staticmethod
    def _unreadable(tenant: str, fault: str) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"Of the tenant {tenant}, {fault}; `privacy-gateway ledger audit` reports the details."
        )
