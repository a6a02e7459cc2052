"""Reads of the ledger: tenants, accounts and the journal. This module writes nothing.

Redis has the newest entries of a journal, without a gap. Older ones are in the archive, if they were archived; else
they are missing. `JournalReads` reads across this border. The work for a page depends on the page, not on the length of
the journal or of its entries. The history of a subject is read from the journal's index of the subject's entries.
"""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from core.accounting.events import Unit
from core.amounts import Amount
from core.errors import LedgerUnavailable, UnknownAccount, UnknownTenant
from core.ledger.archive.store import EntryRange, LedgerArchive, TenantPart
from core.ledger.counters import COUNT
from core.ledger.hash_chain.chain import JournalDigest, RawEntry
from core.ledger.headroom import DebitedAccounts
from core.ledger.pages import OWN_ACCOUNTS, entry_number, missing_fault, read_accounts
from core.ledger.records import (
    AccountPage,
    AccountState,
    JournalEntry,
    JournalPage,
    Tenant,
    TenantMode,
    TenantState,
    journal_entry,
    new_subject_state,
)
from core.redis import names
from core.redis.client import LedgerClient


class JournalReads:
    """Reads one tenant's journal. Without an `archive` entries that were archived are left out.

    `objects` counts the objects of the archive that were used. Methods raise BlobMissing, BlobCorrupt or
    StoreUnavailable if an archived entry cannot be read.
    """

    def __init__(self, client: LedgerClient, tenant: str, archive: LedgerArchive | None) -> None:
        self._client = client
        self._tenant = tenant
        self._archive = archive
        self._key = names.journal_key(tenant)
        self.objects = 0

    async def oldest(self, first: int, last: int, count: int) -> Sequence[RawEntry]:
        """Return up to `count` entries from `first` to `last`, oldest first."""
        found: Sequence[RawEntry] = await self._client.call("XRANGE", self._key, first, last, "COUNT", count)
        if self._archive is None or (found and entry_number(found[0]) == first):
            return found
        archived = await self._archive.part_at(self._tenant, first)
        if archived is None:
            return found
        self.objects += 1
        batch: list[RawEntry] = []
        for part in archived.batches(first, last):
            batch += part
            if len(batch) >= count:
                break
        return batch[:count]

    async def newest(self, first: int, last: int, count: int) -> Sequence[RawEntry]:
        """Return up to `count` entries from `first` to `last`, newest first."""
        found: Sequence[RawEntry] = await self._client.call("XREVRANGE", self._key, last, first, "COUNT", count)
        if self._archive is None or found:
            return found
        archived = await self._archive.part_at(self._tenant, last)
        if archived is None:
            return found
        self.objects += 1
        return archived.newest(first, last, count)

    async def numbered(self, numbers: Sequence[int], *, objects_max: int) -> Sequence[RawEntry]:
        """Return the entries with these numbers, in their order.

        Stops before the entry that needs more than `objects_max` objects of the archive.
        """
        replies = await self._client.call_many([("XRANGE", self._key, number, number) for number in numbers])
        found: list[RawEntry] = []
        used: EntryRange | None = None
        for number, entries in zip(numbers, replies, strict=True):
            if entries or self._archive is None:
                found += entries
                continue
            if used is None or not used.first <= number <= used.last:
                if self.objects >= objects_max:
                    break
                used = await self._archive.range_at(self._tenant, number)
                self.objects += used is not None
            archived = await self._archive.part_at(self._tenant, number) if used is not None else None
            found += archived.newest(number, number, 1) if archived is not None else []
        return found

    async def first_at(self, at_ms: int) -> int:
        """Return the number of the first entry at or after a time, by bisection, or that of the next entry."""
        low, high = 1, int(await self._client.call("HGET", names.tenant_key(self._tenant), "seq") or 0) + 1
        while low < high:
            middle = (low + high) // 2
            found = await self._client.call("XRANGE", self._key, middle, "+", "COUNT", 1)
            if self._archive is not None and not (found and entry_number(found[0]) == middle):
                range_ = await self._archive.range_at(self._tenant, middle)
                if range_ is not None and range_.from_ms < at_ms <= range_.to_ms:
                    archived = await self._archive.part_at(self._tenant, middle)
                    self.objects += 1
                    return (archived.first_at(at_ms) if archived else None) or range_.first
                if range_ is not None:
                    low, high = (range_.last + 1, high) if range_.to_ms < at_ms else (low, range_.first)
                    continue
            if found and int(found[0][1].get(b"at_ms", b"0")) < at_ms:
                low = entry_number(found[0]) + 1
            else:
                high = middle
        return low


_READS_MAX = 10_000  # entries read for one page, most of which a filter may leave out
_OBJECTS_MAX = 16  # objects of the archive read for one page
_BATCH_MIN, _BATCH_MAX = 8, 250  # the event loop reads a reply in a millisecond
_BATCH_ROWS = 2000  # wanted in a batch: one entry may have thousands of rows
_LAST = 2**53  # no journal has an entry with this number


@dataclass(frozen=True)
class JournalFilter:
    """Which entries are wanted; None admits every value. `from_ms` is inclusive, `to_ms` is not. `stated`: only those
    whose request states a purpose or a recipient.

    The times are those of the clock of Redis. Where that clock was set back, the numbers and the times of entries have
    another order, and a range of times may leave out entries near that moment.
    """

    from_ms: int | None = None
    to_ms: int | None = None
    transition: str | None = None
    mechanism: str | None = None
    route: str | None = None
    key_id: str | None = None
    stated: bool = False

    def admits(self, raw: RawEntry) -> bool:
        """Whether an entry is wanted. Does not parse its rows."""
        fields = raw[1]
        wanted = (
            (b"transition", self.transition),
            (b"mechanism", self.mechanism),
            (b"route", self.route),
            (b"key", self.key_id),
        )
        if any(value is not None and fields.get(name, b"") != value.encode() for name, value in wanted):
            return False
        if self.stated and b"purpose" not in fields and b"recipient" not in fields:
            return False
        at_ms = int(fields.get(b"at_ms", b"0"))
        return (self.from_ms is None or at_ms >= self.from_ms) and (self.to_ms is None or at_ms < self.to_ms)


EVERY_ENTRY = JournalFilter()


@dataclass(frozen=True)
class JournalView:
    """The entries of one account, or all of a tenant (`account_id` None), that `wanted` admits.

    With `subject`, the full hash of a subject, only the entries in which this subject has rows. `newest_first` reverses
    the order. Entries before number `first` and after number `last` do not belong to the view.
    """

    account_id: str | None = None
    subject: str | None = None
    wanted: JournalFilter = EVERY_ENTRY
    newest_first: bool = False
    first: int = 1
    last: int | None = None


class JournalEntries:
    """Reads the pages of a view.

    The journal has an index of each subject's entries, so a page of a subject reads no others.
    """

    def __init__(self, client: LedgerClient, tenant: str, view: JournalView, archive: LedgerArchive | None) -> None:
        self._reads = JournalReads(client, tenant, archive)
        self._client = client
        self._tenant = tenant
        self._view = view
        self._of_own_account = view.account_id is not None and view.account_id.count("/") == 1
        self._batch = 32

    async def page(self, *, cursor: int, limit: int, rows_max: int) -> JournalPage:
        """Return up to `limit` entries after `cursor`. Stops after the batch in which `rows_max` rows were read."""
        found: list[JournalEntry] = []
        rows = reads = 0
        async for batch in self._batches(cursor):
            entries = await asyncio.to_thread(self._parsed, batch)
            for raw, entry in zip(batch, entries, strict=True):
                if entry is not None and len(found) == limit:
                    return JournalPage(tuple(found), cursor, rows)
                cursor = entry_number(raw)
                if entry is not None:
                    found.append(entry)
            reads += len(batch)
            batch_rows = sum(map(_rows, batch))
            rows += batch_rows
            if rows >= rows_max or reads >= _READS_MAX or self._reads.objects >= _OBJECTS_MAX:
                return JournalPage(tuple(found), cursor, rows)
            per_entry = 1 + batch_rows // len(batch)
            self._batch = max(_BATCH_MIN, min(_BATCH_MAX, _BATCH_ROWS // per_entry, 2 * self._batch))
        return JournalPage(tuple(found), None, rows)

    async def _batches(self, cursor: int) -> AsyncIterator[Sequence[RawEntry]]:
        """Yield the entries after the cursor in the order of the view, within the range of times."""
        first, last = await self._bounds()
        read = self._all if self._view.subject is None else self._of_subject
        while True:
            if self._view.newest_first:
                last = min(last, cursor - 1) if cursor else last
            else:
                first = max(first, cursor + 1)
            if first > last:
                return
            batch = await read(first, last)
            if not batch:
                return
            yield batch
            cursor = entry_number(batch[-1])

    async def _bounds(self) -> tuple[int, int]:
        """Return the first and the last number that the range of times can contain."""
        wanted, first, last = self._view.wanted, self._view.first, self._view.last or _LAST
        if wanted.from_ms is not None:
            first = max(first, await self._reads.first_at(wanted.from_ms))
        if wanted.to_ms is not None:
            last = min(last, await self._reads.first_at(wanted.to_ms) - 1)
        return first, last

    async def _all(self, first: int, last: int) -> Sequence[RawEntry]:
        read = self._reads.newest if self._view.newest_first else self._reads.oldest
        return await read(first, last, self._batch)

    async def _of_subject(self, first: int, last: int) -> Sequence[RawEntry]:
        index = names.subject_entries_key(self._tenant, self._view.subject or "")
        if self._view.newest_first:
            which = ("ZREVRANGEBYSCORE", index, last, first)
        else:
            which = ("ZRANGEBYSCORE", index, first, last)
        numbers = await self._client.call(*which, "LIMIT", 0, self._batch)
        return await self._reads.numbered(list(map(int, numbers)), objects_max=_OBJECTS_MAX)

    def _parsed(self, batch: Sequence[RawEntry]) -> list[JournalEntry | None]:
        """Parse the entries that the page shows; None for the others."""
        return [self._entry(raw) for raw in batch]

    def _entry(self, raw: RawEntry) -> JournalEntry | None:
        view = self._view
        if not view.wanted.admits(raw):
            return None
        with_subjects = not self._of_own_account or view.subject is not None
        entry = journal_entry(self._tenant, raw, subjects=with_subjects)
        lines = entry.all_amounts
        if view.account_id is not None and not any(line.account == view.account_id for line in lines):
            return None
        if view.subject is not None and not any(line.subject_hash == view.subject for line in lines):
            return None
        return replace(entry, sha256=JournalDigest([raw]).hexdigest())


def _rows(raw: RawEntry) -> int:
    """Return the number of rows of an entry without parsing it: a row starts after the end of another."""
    return sum(1 + raw[1].get(field, b"").count(b'],["') for field in (b"amounts", b"subjects"))


@dataclass(frozen=True)
class Spent:
    """One release that was spent on an account: its cost, and how often the account counts it, once for a document."""

    entry: JournalEntry
    amount: Amount
    count: int


@dataclass(frozen=True)
class SubjectHistory:
    """The newest releases of an account, the newest first. `complete`: none in the range is left out.

    `rows_read` are the charges of accounts in the entries that were read for it.
    """

    releases: tuple[Spent, ...]
    complete: bool
    rows_read: int


class SealPlaces:
    """Finds the seals of one tenant's entries: by an index that seal.lua writes, or in the objects of archived entries.

    The index is not authenticated. A seal that it names is shown to a reader of the journal; the audit and the export
    read the seals themselves.
    """

    def __init__(self, client: LedgerClient, tenant: str, archive: LedgerArchive | None) -> None:
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
    return ("HMGET", names.tenant_key(name), "mode", "created_ms", "state")


def found_tenant(name: str, reply: Sequence[bytes | None]) -> Tenant:
    """Return the tenant of a reply. Raises UnknownTenant."""
    mode, created_ms, state = reply
    if mode is None:
        raise UnknownTenant
    stored = TenantState(state.decode()) if state else TenantState.ACTIVE
    return Tenant(name, TenantMode(mode.decode()), int(created_ms or 0), stored)


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
        listed = sorted(await self._client.tenants())
        replies = await self._client.call_many([tenant_command(name) for name in listed])
        pairs = zip(listed, replies, strict=True)
        return tuple(found_tenant(name, reply) for name, reply in pairs if reply[0])  # else of a broken `open_tenant`

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
                unit: states.get(names.account_name(unit, subject)) or new_subject_state(tenant, terms, subject)
                for unit, terms in fresh.items()
            }
            if subject
            else None,
            new_subject={unit: new_subject_state(tenant, terms, None) for unit, terms in fresh.items()} or None,
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
        return await JournalReads(self._client, tenant, self._archive).first_at(at_ms)

    async def subject_history(self, tenant: str, state: AccountState, *, first: int, rows_max: int) -> SubjectHistory:
        """Return what was spent on a subject's account since the entry `first`. Reads about `rows_max` charges."""
        view = JournalView(state.account, state.subject_hash, newest_first=True, first=first)
        entries = JournalEntries(self._client, tenant, view, self._archive)
        page = await entries.page(cursor=0, limit=rows_max, rows_max=rows_max)
        releases = [
            Spent(entry, line.amount, line.vector[COUNT])
            for entry in page.entries
            if entry.transition in ("commit", "expire")
            for line in entry.all_amounts
            if line.account == state.account
        ]
        return SubjectHistory(tuple(releases), page.next_cursor is None, page.rows_read)

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
