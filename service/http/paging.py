"""How lists are paged: the query that the routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query

from service.house import House, house


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
