"""The parameters of one synthesis, fixed before a row is read, and the check that its noise can be drawn.

Guarantee: this module uses only the declared schema and the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import partial
from typing import Final, Literal

from core.amounts import delta_of, epsilon_of
from core.errors import OutOfRange
from core.synthesis.encoding import EncodedTable
from core.synthesis.low_order import low_order_groups
from core.synthesis.marginals_release import MarginalsRelease, counts_scale, marginals_release
from core.synthesis.pearl_release import (
    Design,
    PearlRelease,
    checked,
    low_order_plan,
    noise_plan,
    pearl_release,
)
from core.synthesis.pricing import RecordBudget, record_budget
from core.synthesis.schema import TableSchema

Method = Literal["pearl", "marginals"]
FREQUENCIES_DEFAULT: Final = 5_000
BINS_DEFAULT: Final = 16
DESIGN_DEFAULT: Final = Design.LOW_ORDER
_HALVINGS = 20


@dataclass(frozen=True)
class SynthesisPlan:
    """One release by `method`. `frequencies` and `design` are for pearl; `bins` is the number of bins of a numeric
    column for marginals."""

    method: Method
    rows_are_public: bool
    frequencies: int = FREQUENCIES_DEFAULT
    bins: int = BINS_DEFAULT
    design: Design = DESIGN_DEFAULT

    def check(self, schema: TableSchema, budget: RecordBudget) -> None:
        """Raise what `release` would raise: InvalidInput, and OutOfRange with the smallest epsilon that suffices."""
        scale = self._scale(schema)
        try:
            scale(budget.noise_multiplier)
        except OutOfRange:
            raise OutOfRange(
                "This budget needs noise that is too wide to be sampled. At this delta the smallest epsilon that"
                f" suffices is {_smallest_epsilon(scale, budget):g}.",
                field="epsilon",
            ) from None

    def release(self, table: EncodedTable, budget: RecordBudget) -> PearlRelease | MarginalsRelease:
        """Make the one release, charged as `budget.event(method)`. Raises as `check`, before anything is drawn."""
        public = self.rows_are_public
        if self.method == "pearl":
            return pearl_release(
                table, frequencies=self.frequencies, budget=budget, rows_are_public=public, design=self.design
            )
        return marginals_release(table, bins=self.bins, budget=budget, rows_are_public=public)

    def _scale(self, schema: TableSchema) -> Callable[[float], object]:
        """Return a function of the noise multiplier that raises OutOfRange if the sampler does not support it."""
        if self.method == "marginals":
            return lambda noise: counts_scale(schema, bins=self.bins, noise_multiplier=noise)
        if self.design is Design.LOW_ORDER:
            return partial(low_order_plan, low_order_groups(schema, frequencies=checked(self.frequencies)))
        return lambda noise: noise_plan(
            schema,
            frequencies=self.frequencies,
            noise_multiplier=noise,
            rows_are_public=self.rows_are_public,
            design=self.design,
        )


def _smallest_epsilon(scale: Callable[[float], object], budget: RecordBudget) -> float:
    """Return the smallest sufficient epsilon, rounded up to three digits. `budget` is too small."""

    def enough(epsilon: float) -> bool:
        try:
            scale(record_budget(epsilon, delta_of(budget.delta_femto)).noise_multiplier)
        except OutOfRange:
            return False
        return True

    low = high = epsilon_of(budget.epsilon_nano)
    while not enough(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    digit = Decimal(1).scaleb(math.floor(math.log10(high)) - 2)
    return float((Decimal(high) / digit).to_integral_value(ROUND_CEILING) * digit)
