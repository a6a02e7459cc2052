"""Paged reads of a tenant: accounts with the journal number of their state, and journal entries as stored."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from core.accounting.events import Unit
from core.errors import UnknownTenant
from core.ledger.hash_chain.chain import RawEntry
from core.ledger.records import AccountState, JournalEntry, account_states, journal_entry
from core.redis import names
from core.redis.client import LedgerClient

# Small, so that a sealing round blocks the event loop for only a few milliseconds at a time.
ENTRY_BATCH = 100
ACCOUNT_BATCH = 1000
OWN_ACCOUNTS = tuple(unit.value for unit in Unit)


@dataclass(frozen=True)
class AccountsRead:
    """Accounts as they were after entry `seq`. `rows` is the reply of Redis, `states` the parsed form.

    `last` is the name to continue after; it is "" if nothing was found. `missing` are the names of accounts that do not
    exist. `faults` are fixed sentences, also about those.
    """

    seq: int
    rows: tuple[tuple[Any, ...], ...]
    states: tuple[AccountState, ...]
    missing: tuple[str, ...]
    faults: tuple[str, ...]
    last: str


async def read_accounts(
    client: LedgerClient,
    tenant: str,
    *,
    listed: Sequence[str] = (),
    between: tuple[str, str] | None = None,
    limit: int = ACCOUNT_BATCH,
    subjects: bool = False,
    history: bool = False,
) -> AccountsRead:
    """Read the accounts `listed` by name, then those `between` two names in ZRANGEBYLEX syntax, at most `limit`.

    With `subjects` the range excludes the tenant's own accounts. Raises UnknownTenant.
    """
    args: dict[str, Any] = {"names": listed, "limit": limit, "subjects": subjects, "history": history}
    if between is not None:
        args["first"], args["last"] = between
    found, _ = await client.run("accounts", key=names.tenant_key(tenant), args=args)
    if found["outcome"] == "unknown-tenant":
        raise UnknownTenant
    rows = tuple(tuple(row) for row in found["accounts"])
    missing = [missing_fault(tenant, name) for name in found["missing"]]
    unreadable = [f"the account {_shown(tenant, name)} cannot be read" for name in found["unreadable"]]
    return AccountsRead(
        seq=found["seq"],
        rows=rows,
        states=account_states(tenant, rows),
        missing=tuple(found["missing"]),
        faults=(*missing, *unreadable),
        last=found["last"],
    )


async def account_batch(client: LedgerClient, tenant: str, *, after: str = "") -> AccountsRead:
    """Read up to 1,000 accounts after the name `after`. Raises UnknownTenant."""
    return await read_accounts(client, tenant, between=(f"({after}" if after else "-", "+"))


async def raw_entries(client: LedgerClient, tenant: str, *, after: int, last: int) -> AsyncIterator[list[RawEntry]]:
    """Yield the entries in Redis with numbers after `after` up to `last`, in batches. Missing entries are left out."""
    start = str(after + 1)
    while after < last:
        batch = await client.call("XRANGE", names.journal_key(tenant), start, str(last), "COUNT", ENTRY_BATCH)
        if not batch:
            return
        yield batch
        start = f"({batch[-1][0].decode()}"


class EntryArchive(Protocol):
    """The archived entries of a ledger."""

    def entries(self, stream: str, *, after: int, last: int) -> AsyncIterator[Sequence[RawEntry]]:
        """Yield the archived entries of a tenant, or the seals of CHAIN, after `after` up to `last`, in batches."""


async def entries_of(
    client: LedgerClient, archive: EntryArchive | None, stream: str, *, after: int, last: int | None, count: int
) -> AsyncIterator[Sequence[RawEntry]]:
    """Yield the entries of a tenant, or the seals of CHAIN, after `after` up to `last` (None: to the end), in batches.

    Guarantee: an archiver that runs meanwhile in any process hides no entry. Redis is read first, and what it no longer
    has is read from the archive, which had it before it was removed. What neither has is left out.
    """
    key = names.SEAL_CHAIN_KEY if stream == names.CHAIN else names.journal_key(stream)
    start, end = str(after + 1), "+" if last is None else str(last)
    while last is None or after < last:
        found = await client.call("XRANGE", key, start, end, "COUNT", count)
        gap = entry_number(found[0]) - 1 if found else last
        if archive is not None and gap is not None and gap > after:
            async for batch in archive.entries(stream, after=after, last=gap):
                yield batch
        if not found:
            return
        yield found
        start, after = f"({found[-1][0].decode()}", entry_number(found[-1])


async def first_in_redis(client: LedgerClient, key: str) -> int | None:
    """Return the number of the first entry of a journal, or of the chain, that is still in Redis."""
    found = await client.call("XRANGE", key, "-", "+", "COUNT", 1)
    return entry_number(found[0]) if found else None


def entry_number(raw: RawEntry) -> int:
    return int(raw[0].partition(b"-")[0])


def readable_entry(tenant: str, raw: RawEntry, *, subjects: bool = True) -> JournalEntry | None:
    """Parse the entry as `journal_entry` does. Returns None if it is not one that the ledger's scripts write."""
    try:
        return journal_entry(tenant, raw, subjects=subjects) if raw[0].endswith(b"-0") else None
    except (KeyError, ValueError, IndexError, TypeError, AttributeError):
        return None


def missing_fault(tenant: str, name: str) -> str:
    """Return the fault of an account that does not exist."""
    return f"the account {_shown(tenant, name)} is missing"


def _shown(tenant: str, name: str) -> str:
    unit, _, subject = name.partition(":")
    return f"{tenant}/{unit}/{subject[: names.SUBJECT_ID_LENGTH]}" if subject else f"{tenant}/{unit}"
