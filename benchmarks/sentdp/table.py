"""A table of means and standard deviations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Cell:
    mean: float
    sd: float | None = None  # None: nothing random, or one trial

    @classmethod
    def of(cls, results: Sequence[float], *, random: bool = True) -> Cell:
        return cls(float(np.mean(results)), float(np.std(results)) if random and len(results) > 1 else None)

    def __str__(self) -> str:
        shown = f"{self.mean:.3f}"
        return shown if self.sd is None else f"{shown} ± {self.sd:.3f}"


@dataclass(frozen=True)
class Row:
    about: str
    cells: list[Cell]


@dataclass
class Table:
    """Rows by name, in order; `heads` are the columns' titles, `columns` their bare values, `about` heads what each
    row says of itself."""

    title: str
    columns: Sequence[float]
    heads: Sequence[str]
    about: str = "protects"
    rows: dict[str, Row] = field(default_factory=dict)

    def markdown(self) -> str:
        lines = [
            f"| {self.title} | {self.about} | " + " | ".join(self.heads) + " |",
            "|" + " --- |" * (len(self.heads) + 2),
        ]
        for name, row in self.rows.items():
            lines.append(f"| {name} | {row.about} | " + " | ".join(str(cell) for cell in row.cells) + " |")
        return "\n".join(lines)
