"""The parameters of one synthesis, fixed before a row is read, the check of its noise, and its release as a file.

Guarantee: the plan uses only the declared schema and the parameters.

A job stores its release (`release_bytes`), so that it continues after a crash without a second release. The format is
MessagePack; arrays are float64, little-endian, in C order. Reading executes no code and checks every shape.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import partial
from typing import Any, Final, Literal

import msgpack
import numpy as np
import numpy.typing as npt

from core.amounts import delta_of, epsilon_of
from core.errors import InvalidInput, OutOfRange
from core.synthesis.encoding import EncodedTable
from core.synthesis.frequencies import low_order_groups
from core.synthesis.marginals_release import MARGINALS, MarginalsRelease, cells, counts_scale, marginals_release
from core.synthesis.pearl_release import PEARL, Design, PearlRelease, checked, low_order_plan, noise_plan, pearl_release
from core.synthesis.pricing import RecordBudget, record_budget
from core.synthesis.schema import TableSchema, table_schema
from core.synthesis.subjects import METHODS, for_subjects

Method = Literal["pearl", "marginals"]
FREQUENCIES_DEFAULT: Final = 5_000
BINS_DEFAULT: Final = 16
DESIGN_DEFAULT: Final = Design.LOW_ORDER
_HALVINGS = 20


@dataclass(frozen=True)
class SynthesisPlan:
    """One release by `method`. `frequencies` and `design` are for pearl; `bins` is the number of bins of a numeric
    column for marginals. `rows_per_subject`: how many rows of one person the noise covers (`subjects`); None
    without subjects."""

    method: Method
    rows_are_public: bool
    frequencies: int = FREQUENCIES_DEFAULT
    bins: int = BINS_DEFAULT
    design: Design = DESIGN_DEFAULT
    rows_per_subject: int | None = None

    def check(self, schema: TableSchema, budget: RecordBudget) -> None:
        """Raise what `release` would raise: InvalidInput, and OutOfRange with the smallest epsilon that suffices."""
        if self.rows_per_subject is not None and (self.method not in METHODS or self.rows_are_public):
            detail = f"A subject needs a protected row_count, and one of the methods {', '.join(METHODS)}."
            raise InvalidInput(detail, field="schema.subject")
        of_multiplier = self._scale(schema)

        def scale(noise_multiplier: float) -> object:
            return of_multiplier(for_subjects(noise_multiplier, self.rows_per_subject))

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
        budget = replace(budget, noise_multiplier=for_subjects(budget.noise_multiplier, self.rows_per_subject))
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


FORMAT = "privacy-gateway/release/1"
FloatArray = npt.NDArray[np.float64]
_NUMBER = np.dtype("<f8")


def release_bytes(release: PearlRelease | MarginalsRelease) -> bytes:
    """Serialise a release and its mechanism."""
    facts: dict[str, Any] = {"format": FORMAT, "schema": release.schema.as_json(), "rows": release.rows}
    if isinstance(release, MarginalsRelease):
        arrays = [*release.tables, release.classes]
        facts |= {"mechanism": MARGINALS, "bins": release.bins, "noise": release.noise}
    else:
        arrays = [release.frequencies, release.weights, release.sums, release.counts]
        facts |= {
            "mechanism": PEARL,
            "design": release.design.value,
            "mean_distance": release.mean_distance,
            "sums_noise": release.sums_noise,
            "counts_noise": release.counts_noise,
        }
    facts["arrays"] = [[list(array.shape), array.astype(_NUMBER).tobytes()] for array in arrays]
    packed: bytes = msgpack.packb(facts)
    return packed


def release_of(packed: bytes) -> PearlRelease | MarginalsRelease:
    """Parse the output of `release_bytes`. Raises ValueError for invalid data, and for numbers that are not finite."""
    try:
        facts = msgpack.unpackb(packed)
        if facts.pop("format") != FORMAT:
            raise ValueError
        schema = table_schema(facts.pop("schema"))
        arrays = [_array(shape, numbers) for shape, numbers in facts.pop("arrays")]
        mechanism = facts.pop("mechanism")
        if mechanism == PEARL:
            return _pearl(schema, arrays, facts)
        if mechanism == MARGINALS:
            return _marginals(schema, arrays, facts)
        raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, msgpack.UnpackException, InvalidInput):
        raise ValueError("not a release of a known format") from None


def _pearl(schema: TableSchema, arrays: list[FloatArray], facts: dict[str, Any]) -> PearlRelease:
    frequencies, weights, sums, counts = arrays
    count = len(frequencies)
    _expect(frequencies, count, schema.width)
    _expect(weights, count)
    _expect(sums, schema.classes, count, 2)
    _expect(counts, schema.classes)
    design = Design(facts.pop("design"))
    return PearlRelease(
        schema=schema, design=design, frequencies=frequencies, weights=weights, sums=sums, counts=counts, **facts
    )


def _marginals(schema: TableSchema, arrays: list[FloatArray], facts: dict[str, Any]) -> MarginalsRelease:
    *tables, classes = arrays
    for table, column in zip(tables, schema.columns, strict=True):
        _expect(table, schema.classes, cells(column, facts["bins"]))
    _expect(classes, schema.classes)
    return MarginalsRelease(schema=schema, tables=tuple(tables), classes=classes, **facts)


def _array(shape: list[int], numbers: bytes) -> FloatArray:
    array: FloatArray = np.frombuffer(numbers, _NUMBER).astype(np.float64).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError
    return array


def _expect(array: FloatArray, *shape: int) -> None:
    if array.shape != shape:
        raise ValueError
