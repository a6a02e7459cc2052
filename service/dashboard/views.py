"""The views of the dashboard: one row, one script in `static/views` for each.

A view reads and changes what its key may, by the same REST calls as any client. It has no other way to the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.ledger.keystore import KeyRole
from core.ledger.sessions import Session


@dataclass(frozen=True)
class Surface:
    """Which API an application serves: that of tenants, that of the operator, or both. Its views call no other."""

    tenants: bool
    operator: bool


@dataclass(frozen=True)
class View:
    """`question`: what the view answers, as its page says. `role`: what a tenant's key needs for it; None for a view of
    the operator. `chart`: whether it draws one. `operator`: a view of tenants that the operator opens, too, with other
    calls. `shared`: one that the operator opens with the same calls, for what all tenants share."""

    name: str
    title: str
    question: str
    role: KeyRole | None
    chart: bool = False
    operator: bool = False
    shared: bool = False


VIEWS: tuple[View, ...] = (
    View("service", "Service", "Does the gateway work, and how fast?", None),
    View("tenants", "Tenants", "Who may spend how much, and with which keys?", None),
    View("audit", "Audit log", "Who changed tenants and keys, and when?", None),
    View("headroom", "Headroom", "How many more requests fit, and what refuses the next one?", KeyRole.READ),
    View("forecast", "Forecast", "When does the budget run out?", KeyRole.READ, chart=True),
    View("spending", "Spending", "Who spent how much, and when?", KeyRole.READ, chart=True),
    View("subjects", "Subjects", "Whose next request is refused?", KeyRole.READ),
    View("bounds", "Bounds", "What is proven, and what is an estimate?", KeyRole.READ),
    View(
        "integrity", "Integrity", "Is the record of what was spent complete and unchanged?", KeyRole.READ, operator=True
    ),
    View("alerts", "Alerts", "What fired, and is it over?", KeyRole.READ, operator=True),
    View("journal", "Journal", "Who did what, and when?", KeyRole.READ),
    View("what-if", "What if", "What would this cost, and what would be left?", KeyRole.READ),
    View("jobs", "Jobs", "What runs, how far is it, and what did it cost?", KeyRole.JOBS, shared=True),
    View("try", "Try it", "What does the gateway make of a document?", KeyRole.RELEASE),
    View("keys", "Keys", "Who can use the gateway for this tenant?", KeyRole.ADMIN),
    View("catalogue", "Policies and models", "What is installed, and which rules apply?", KeyRole.READ),
)


def of(session: Session, surface: Surface) -> tuple[View, ...]:
    """The views that a session may open, the first one first."""
    if session.tenant is None:
        return tuple(
            view
            for view in VIEWS
            if ((view.role is None or view.operator) and surface.operator) or (view.shared and surface.tenants)
        )
    return tuple(view for view in VIEWS if surface.tenants and view.role in session.roles)


def exists(name: str) -> bool:
    """Whether there is a view of this name for anybody."""
    return any(view.name == name for view in VIEWS)
