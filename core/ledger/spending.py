"""What each API key of a tenant has spent, from the tenant's journal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from core.accounting.events import Unit
from core.amounts import Amount
from core.errors import UnknownTenant
from core.ledger import names
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient
from core.ledger.journal_reads import JournalReads
from core.ledger.pages import readable_entry


@dataclass(frozen=True)
class KeySpending:
    """The releases that a key caused, and their sum in basic composition. `key_id` is None for those without a key."""

    key_id: str | None
    unit: Unit
    mechanism: str
    releases: int
    spent: Amount


async def spending_by_key(
    client: LedgerClient,
    tenant: str,
    *,
    from_ms: int = 0,
    to_ms: int | None = None,
    archive: LedgerArchive | None = None,
) -> tuple[KeySpending, ...]:
    """Return what was spent from `from_ms` to before `to_ms`, by key, unit and mechanism.

    Counts committed and expired releases on the tenant's own accounts, which in `subject` mode are the sums over all
    subjects. A release counts in every unit that it debits. The time is linear in the journal, the memory is not. An
    entry that cannot be read is left out; `ledger audit` reports it. Raises UnknownTenant.
    """
    seq = await client.call("HGET", names.tenant_key(tenant), "seq")
    if seq is None:
        raise UnknownTenant
    totals: dict[tuple[str | None, Unit, str], Counter[str]] = {}
    async for batch in JournalReads(client, tenant, archive).all(after=0, last=int(seq)):
        for raw in batch:
            entry = readable_entry(tenant, raw, subjects=False)
            if entry is None or entry.transition not in ("commit", "expire"):
                continue
            if entry.at_ms < from_ms or (to_ms is not None and entry.at_ms >= to_ms):
                continue
            for line in entry.amounts:
                total = totals.setdefault((entry.key_id, line.unit, entry.mechanism or ""), Counter())
                epsilon, delta = line.amount.epsilon_nano, line.amount.delta_femto
                total.update(releases=1, epsilon=epsilon, delta=delta)
    return tuple(
        KeySpending(*key, releases=total["releases"], spent=Amount(total["epsilon"], total["delta"]))
        for key, total in sorted(totals.items(), key=lambda item: (item[0][0] or "", *item[0][1:]))
    )
