"""The query of an answer in pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query

from service.config.settings import Settings
from service.parts import Part


@dataclass(frozen=True)
class Paging:
    """`cursor`: `next_cursor` of the page before, None for the first page."""

    cursor: str | None
    limit: int


async def paging(
    settings: Part[Settings],
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before")] = None,
    limit: Annotated[int | None, Query(ge=1)] = None,
) -> Paging:
    """The query of a page. A longer page than the settings allow is cut to what they allow."""
    largest = settings.budget_page_max
    return Paging(cursor, largest if limit is None else min(limit, largest))


PagingDep = Annotated[Paging, Depends(paging)]
