"""Accounts, their journal, what was spent and what still fits, as a capability of the gateway."""

from __future__ import annotations

from core.ledger.archive.store import LedgerArchive
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient
from core.reports.integrity import IntegrityReads
from core.reports.ranks import SubjectRanks
from core.reports.series import LedgerSeries, SpendingTotals
from core.state.keystore import KeyRole
from service.budget.bounds import router as bounds
from service.budget.endpoints import account_router, series_router
from service.budget.estimate import estimate_router
from service.budget.events import events_router
from service.budget.headroom import headroom_router
from service.budget.integrity import admin_router
from service.budget.integrity import router as integrity
from service.budget.journal import router as journal
from service.budget.spending import router as spending
from service.budget.watch import BudgetWatch
from service.capability import Capability, View
from service.config.settings import Settings
from service.parts import Parts
from service.turns import LedgerReads


def _series(parts: Parts) -> LedgerSeries:
    settings = parts[Settings]
    return LedgerSeries(
        parts[LedgerClient],
        points_max=settings.series_points_max,
        series_max=settings.series_max,
        archive=parts[LedgerArchive],
    )


CAPABILITY = Capability(
    name="budget",
    routers=[
        series_router,
        events_router,
        estimate_router,
        headroom_router,
        integrity,
        spending,
        journal,
        bounds,
        account_router,  # last: the name of an account may hold slashes
    ],
    operator_routers=[admin_router],
    services={
        LedgerSeries: _series,
        SpendingTotals: lambda parts: SpendingTotals(parts[LedgerClient], archive=parts[LedgerArchive]),
        SubjectRanks: lambda parts: SubjectRanks(parts[LedgerClient], archive=parts[LedgerArchive]),
        BudgetWatch: lambda parts: BudgetWatch(parts[Ledger].last_numbers),
        IntegrityReads: lambda parts: IntegrityReads(parts[LedgerClient], parts[MasterKey]),
        LedgerReads: lambda _: LedgerReads(),
    },
    views=[
        View(40, "headroom", "Headroom", "How many more requests fit, and what refuses the next one?", KeyRole.READ),
        View(50, "forecast", "Forecast", "When does the budget run out?", KeyRole.READ, chart=True),
        View(60, "spending", "Spending", "Who spent how much, and when?", KeyRole.READ, chart=True),
        View(70, "subjects", "Subjects", "Whose next request is refused?", KeyRole.READ),
        View(80, "bounds", "Bounds", "What is proven, and what is an estimate?", KeyRole.READ),
        View(
            90,
            "integrity",
            "Integrity",
            "Is the record of what was spent complete and unchanged?",
            KeyRole.READ,
            operator=True,
        ),
        View(110, "journal", "Journal", "Who did what, and when?", KeyRole.READ),
        View(120, "what-if", "What if", "What would this cost, and what would be left?", KeyRole.READ),
    ],
)
