"""Pages of a list: where one starts and how long it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paging:
    """`cursor`: `next_cursor` of the page before, None for the first page."""

    cursor: str | None
    limit: int
