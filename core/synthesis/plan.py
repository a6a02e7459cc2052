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
from core.synthesis.aim_release import AIM, COLUMNS_MAX, AimRelease, aim_plan, aim_release
from core.synthesis.columns import CategoricalColumn
from core.synthesis.encoding import EncodedTable
from core.synthesis.frequencies import low_order_groups
from core.synthesis.marginals_release import MARGINALS, MarginalsRelease, cells, counts_scale, marginals_release
from core.synthesis.pearl_release import PEARL, Design, PearlRelease, checked, low_order_plan, noise_plan, pearl_release
from core.synthesis.pricing import RecordBudget, record_budget
from core.synthesis.schema import DeclaredTable, TableSchema, table_schema
from core.synthesis.subjects import SUBJECT_METHODS, for_subjects

Method = Literal["pearl", "marginals", "aim"]
Release = PearlRelease | MarginalsRelease | AimRelease
FREQUENCIES_DEFAULT: Final = {Design.LOW_ORDER: 5_000, Design.GAUSSIAN: 1_000}  # the latter is the paper's
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
    frequencies: int = FREQUENCIES_DEFAULT[DESIGN_DEFAULT]
    bins: int = BINS_DEFAULT
    design: Design = DESIGN_DEFAULT
    rows_per_subject: int | None = None

    def check(self, schema: TableSchema, budget: RecordBudget) -> None:
        """Raise what `release` would raise: InvalidInput, and OutOfRange with the smallest epsilon that suffices."""
        if self.rows_per_subject is not None and (self.method not in SUBJECT_METHODS or self.rows_are_public):
            detail = f"A subject needs a protected row_count, and one of the methods {', '.join(SUBJECT_METHODS)}."
            raise InvalidInput(detail, field="schema.subject")
        of_multiplier = METHODS[self.method].scale(self, schema)

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

    def release(self, table: EncodedTable, budget: RecordBudget) -> Release:
        """Make the one release, charged as `budget.event(method)`. Raises as `check`, before anything is drawn."""
        budget = replace(budget, noise_multiplier=for_subjects(budget.noise_multiplier, self.rows_per_subject))
        return METHODS[self.method].release(self, table, budget)


@dataclass(frozen=True)
class MethodRow:
    """A method of synthesis. `members` of a request are its own.

    `scale` returns a function of the noise multiplier that raises OutOfRange if the sampler does not support it, and
    InvalidInput for a parameter or a schema that the method does not support. `release` makes the release.
    """

    members: tuple[str, ...]
    scale: Callable[[SynthesisPlan, TableSchema], Callable[[float], object]]
    release: Callable[[SynthesisPlan, EncodedTable, RecordBudget], Release]


def _pearl_scale(plan: SynthesisPlan, schema: TableSchema) -> Callable[[float], object]:
    if plan.design is Design.LOW_ORDER:
        return partial(low_order_plan, low_order_groups(schema, frequencies=checked(plan.frequencies)))
    return lambda noise: noise_plan(
        schema,
        frequencies=plan.frequencies,
        noise_multiplier=noise,
        rows_are_public=plan.rows_are_public,
        design=plan.design,
    )


def _pearl_release(plan: SynthesisPlan, table: EncodedTable, budget: RecordBudget) -> PearlRelease:
    public = plan.rows_are_public
    return pearl_release(table, frequencies=plan.frequencies, budget=budget, rows_are_public=public, design=plan.design)


METHODS: Final[dict[Method, MethodRow]] = {
    "pearl": MethodRow(("design", "frequencies", "steps"), _pearl_scale, _pearl_release),
    "marginals": MethodRow(
        ("bins",),
        lambda plan, schema: lambda noise: counts_scale(schema, bins=plan.bins, noise_multiplier=noise),
        lambda plan, table, budget: marginals_release(
            table, bins=plan.bins, budget=budget, rows_are_public=plan.rows_are_public
        ),
    ),
    "aim": MethodRow(
        (),
        lambda _, schema: partial(aim_plan, schema),
        lambda plan, table, budget: aim_release(table, budget=budget, rows_are_public=plan.rows_are_public),
    ),
}


_FEW_VALUES = 16


def advice(declared: DeclaredTable) -> str:
    """Return which method fits a declared table, and why, in one line. It depends on the declaration alone."""
    schema = declared.schema
    if declared.subject is not None:
        return "pearl: it keeps pairs of columns, and aim takes no subject."
    count = len(schema.columns)
    if count == 1:
        return "marginals: the table has one column, so that its counts are all there is to keep."
    if count > COLUMNS_MAX:
        return f"pearl: it keeps pairs of {count} columns, and aim takes at most {COLUMNS_MAX} columns."
    few = sum(isinstance(each, CategoricalColumn) and len(each.categories) <= _FEW_VALUES for each in schema.columns)
    if 2 * few < count:
        return f"pearl: {count - few} of {count} columns are numbers or have more than {_FEW_VALUES} categories."
    label = " with the label" if schema.label is not None else ""
    return f"aim: {few} of {count} columns have few values, so that it can keep sets of up to three columns{label}."


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


def release_bytes(release: Release) -> bytes:
    """Serialise a release and its mechanism."""
    facts: dict[str, Any] = {"format": FORMAT, "schema": release.schema.as_json(), "rows": release.rows}
    if isinstance(release, MarginalsRelease):
        arrays = [*release.tables, release.classes]
        facts |= {"mechanism": MARGINALS, "bins": release.bins, "noise": release.noise}
    elif isinstance(release, AimRelease):
        arrays = list(release.arrays().values())
        facts |= {"mechanism": AIM, **release.facts()}
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


def release_of(packed: bytes) -> Release:
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
        if mechanism == AIM:
            return AimRelease.of(schema, facts, arrays)
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
