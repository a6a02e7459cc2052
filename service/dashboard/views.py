"""The views of the dashboard: one row, one script in `static/views` for each.

A view reads and changes what its key may, by the same REST calls as any client. It has no other way to the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.ledger.keystore import KeyRole
from core.ledger.sessions import Session


@dataclass(frozen=True)
class View:
    """`question`: what the view answers, as its page says. `role`: what a tenant's key needs for it; None for a view of
    the operator. `chart`: whether it draws one."""

    name: str
    title: str
    question: str
    role: KeyRole | None
    chart: bool = False


VIEWS: tuple[View, ...] = (
    View("headroom", "Headroom", "How many more requests fit, and what refuses the next one?", KeyRole.READ),
    View("forecast", "Forecast", "When does the budget run out?", KeyRole.READ, chart=True),
    View("spending", "Spending", "Who spent how much, and when?", KeyRole.READ, chart=True),
    View("subjects", "Subjects", "Whose next request is refused?", KeyRole.READ),
    View("bounds", "Bounds", "What is proven, and what is an estimate?", KeyRole.READ),
    View("integrity", "Integrity", "Is the record of what was spent complete and unchanged?", KeyRole.READ),
    View("journal", "Journal", "Who did what, and when?", KeyRole.READ),
)


def of(session: Session) -> tuple[View, ...]:
    """The views that a session may open, the first one first."""
    if session.tenant is None:
        return tuple(view for view in VIEWS if view.role is None)
    return tuple(view for view in VIEWS if view.role in session.roles)


def find(session: Session, name: str | None) -> View | None:
    """The view of a name, or the first one; None if the session has none of it."""
    views = of(session)
    return next((view for view in views if name in (None, view.name)), None)


def exists(name: str) -> bool:
    """Whether there is a view of this name for anybody."""
    return any(view.name == name for view in VIEWS)
