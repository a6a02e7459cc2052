"""What each API key and each route has spent over time, and what was spent without an output, from the journal.

The sums are of the tenant's own accounts, which in `subject` mode are the sums over all subjects. `core.ledger.series`
has the same by mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from core.accounting.events import Unit
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient
from core.ledger.journal_fold import DAY_S, Aggregate, JournalFold, Totals
from core.ledger.records import JournalEntry

HOUR_S = 3600
UNKNOWN = "-"  # of a release without a key or a route


class Dimension(StrEnum):
    """What spending is divided by. `outcome` has one value, LOST."""

    KEY = "key"
    ROUTE = "route"
    OUTCOME = "outcome"


LOST = "lost"  # spent without an output


def series_name(unit: Unit, dimension: Dimension, value: str) -> str:
    """Return the name of a series of SPENDING."""
    return f"{unit.value}:{dimension.value}:{value}"


def _changes(entry: JournalEntry) -> dict[str, Totals]:
    if entry.transition not in ("commit", "expire"):
        return {}
    values = {Dimension.KEY: entry.key_id or UNKNOWN, Dimension.ROUTE: entry.route or UNKNOWN}
    if entry.transition == "expire":
        values[Dimension.OUTCOME] = LOST
    return {
        series_name(line.unit, dimension, value): Totals(line.amount.epsilon_nano, line.amount.delta_femto, 0, 0, 1)
        for line in entry.amounts
        for dimension, value in values.items()
    }


SPENDING = Aggregate("spending", "spending_folded", {HOUR_S: 14 * DAY_S, DAY_S: None}, _changes)


class SpendingTotals(JournalFold):
    """Folds and reads the spending of keys and routes."""

    def __init__(
        self,
        client: LedgerClient,
        *,
        clock: Callable[[], int] | None = None,
        archive: LedgerArchive | None = None,
    ) -> None:
        super().__init__(client, SPENDING, clock=clock, archive=archive)

    async def lost(self, tenant: str) -> dict[Unit, Totals]:
        """Return what was spent without an output, in each unit."""
        found = await self.totals(tenant, [series_name(unit, Dimension.OUTCOME, LOST) for unit in Unit])
        return dict(zip(Unit, found, strict=True))
