"""How budgets are shown: the same block for an account wherever one appears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from core.amounts import epsilon_of
from core.ledger.records import AccountPage, AccountState
from core.ledger.series import Series, SeriesPage, amounts
from service.house import House, house
from service.problems import amount


@dataclass(frozen=True)
class Paging:
    """Where a page of accounts starts and how long it is."""

    cursor: str | None
    limit: int


def paging(
    here: Annotated[House, Depends(house)],
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before")] = None,
    limit: Annotated[int | None, Query(ge=1)] = None,
) -> Paging:
    """The query of a page, as a FastAPI dependency. A longer page than allowed is cut to what is."""
    largest = here.settings.budget_page_max
    return Paging(cursor, largest if limit is None else min(limit, largest))


def account_block(state: AccountState) -> dict[str, Any]:
    """One account. `remaining` is the limit less what is committed and what is held."""
    block: dict[str, Any] = {
        "account": state.account,
        "unit": state.unit.value,
        "adjacency": state.adjacency.value,
    }
    if state.subject_hash is not None:
        block["subject_hash"] = state.subject_hash
    block |= {
        "limit": amount(state.limit),
        "committed": amount(state.committed),
        "reserved": amount(state.reserved),
        "remaining": amount(state.remaining),
        "accountants": [
            {"name": "basic", "epsilon": epsilon_of(state.committed.epsilon_nano), "kind": "bound"},
        ],
    }
    return block


def page_block(page: AccountPage) -> dict[str, Any]:
    """A page of accounts and where the next one starts."""
    return {"accounts": [account_block(state) for state in page.accounts], "next_cursor": page.next_cursor}


def series_block(page: SeriesPage) -> dict[str, Any]:
    """Series with a point a step."""
    return {
        "from_ms": page.from_ms,
        "to_ms": page.to_ms,
        "step_s": page.step_s,
        "as_of_ms": page.as_of_ms,
        "series": [
            {
                "unit": series.unit.value,
                "mechanism": series.mechanism,
                "subject_class": series.subject_class.value,
                "points": _points(page, series),
            }
            for series in page.series
        ],
    }


def _points(page: SeriesPage, series: Series) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    shown: dict[str, Any] = {}
    before = None
    for index, totals in enumerate(series.points):
        if totals is not before:  # where nothing happened the same values stand again
            committed, reserved = amounts(totals)
            shown = {"committed": amount(committed), "reserved": amount(reserved), "releases": totals.releases}
            before = totals
        points.append({"at_ms": page.from_ms + index * page.step_s * 1000, **shown})
    return points
