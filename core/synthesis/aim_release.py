"""AIM: marginals that the release itself chooses, one by one, and a model of them (McKenna, Mullins and others 2022).

Guarantee: (epsilon, delta)-DP for replacing one row, at `RecordBudget`'s analytic Gaussian calibration; one event. The
model, and everything derived from it, is post-processing of noisy counts and noisy choices. If n is not released
without noise (`rows` None), the same release is also private for adding or removing one row, at sqrt(2) times the
multiplier.

The budget is M = 1 / multiplier^2, fixed before a row is read. Every step is mu-GDP, and its mu^2 is taken from M
before it draws (`Allowance`). Steps depend on the rows only through earlier outputs, and which steps there are, with
which mu, is chosen from these outputs. The sum of the mu^2 never exceeds M, so that together they are sqrt(M)-GDP by
the fully adaptive composition of Gaussian DP (Smith and Thakurta 2022), as one Gaussian release of the multiplier is.

Measuring. The counts of a set of attributes, which are multiplied by the public `_FINENESS` before the noise and
divided by it afterwards. Replacing a row lowers one count and raises one: squared sensitivity 2, and 2 d for d tables
at once. Adding or removing it: 1, and d. Noise of scale s is worth mu^2 = 2 / (s^2 - 16) (`pricing`).

Choosing. The exponential mechanism, exact, on integers w (sum |F c - m| - b) for each candidate set: c are the counts
of its cells, m integers from the model, w and b public. Replacing a row moves two counts by one each, hence the score
by at most 2 F w, which is the mechanism's sensitivity with the largest w. Adding or removing one moves it by half of
that. A release of epsilon-bounded range, such as this one (Dong, Durfee and Rogers 2020), is mu-GDP for
mu = epsilon sqrt(pi / 8).

Proof. The loss between two neighbours lies between t - epsilon and t for some t of 0..epsilon, so that its trade-off
curve lies above the chords to the point of two outcomes with probabilities p = (e^epsilon - e^t) / (e^epsilon - 1) and
q = e^-t p. It suffices that mu >= Phi^-1(p) - Phi^-1(q) for every t. With h(t) = (e^t - 1) / (e^epsilon - 1) it is
1 - p = h(t) and q = h(epsilon - t), and the difference is D(t) = -Phi^-1(h(t)) - Phi^-1(h(epsilon - t)), the same at
epsilon - t. Let I = phi(Phi^-1). J(x) = I(x) / x(1 - x), the same at 1 - x, does not increase on (0, 1/2]: at
x = Phi(-z), the sign of its derivative in z is that of k(z) = phi(z)(2 Phi(z) - 1) - z Phi(z) Phi(-z). k is 0 at 0 and
at infinity, and k' = 2 phi^2 - Phi(z) Phi(-z) is first positive, then negative, because it falls from a positive number
and then rises to 0. For t < epsilon / 2 let a = h(t) and b = h(epsilon - t). Then a < min(b, 1 - b), so that
I(b) / I(a) <= b(1 - b) / a(1 - a) = e^(epsilon - 2t) = h'(epsilon - t) / h'(t), which says D'(t) >= 0. D is therefore
largest in the middle: 2 Phi^-1(1 / (1 + e^(-epsilon / 2))). The derivative of this in epsilon is 1 / J, which falls
from sqrt(pi / 8) at epsilon = 0. Nobody outside this project has checked the proof; a test evaluates the inequality.

The rounds (the paper's algorithm 1). The counts of each column, with the label, come first; rare cells are then joined
(`groups_of`). Each round chooses a set of up to three columns, or five of few cells, with or without the label, whose
counts the model misses most for what noise of this round would cost, and measures it. A set in which the model moves by
less than the noise makes the rounds four times as large. The last round takes what is left.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from core.amounts import NANO
from core.errors import InvalidInput
from core.mechanisms.samplers.exact import IntArray, exponential_mechanism
from core.mechanisms.vectors.release import noise_generator
from core.synthesis.cells import Cells, all_cells
from core.synthesis.columns import CategoricalColumn, Column
from core.synthesis.encoding import EncodedTable
from core.synthesis.junction_tree import Attributes, Measurement, Model, Node, draw_rows, model_cells
from core.synthesis.marginals_release import nearest
from core.synthesis.pricing import RecordBudget, noise_scale, noisy
from core.synthesis.schema import TableSchema

FloatArray = npt.NDArray[np.float64]

AIM: Final = "aim"
COLUMNS_MAX = 64
BINS = 62  # of a numeric column, between the cells of its bounds
_FINENESS = 64
_FIRST = Fraction(15, 100)  # of the budget, for the counts of each column
_CHOICE = Fraction(1, 10)  # of a round's budget, for the choice
_ROUNDS = 4  # for each attribute, if rounds never grow
_ROUNDS_MAX = 100
_BOUNDED_RANGE = Fraction(3927, 10_000)  # above pi / 8
_GROUPS = 16  # of a column, about
_CATEGORIES = 32  # that are not joined
_DEVIATIONS = 3
ORDER_MAX = 3  # columns of a set
_FEW_CELLS, _FEW_CELLS_ORDER_MAX, _FEW_CELLS_SETS_MAX = 512, 5, 2_048  # sets of more columns
_SETS_MAX = 4_096
_SET_CELLS_MAX = 1 << 14
_CELLS_MAX = 1 << 22  # of all candidate sets together
_MODEL_CELLS = 1 << 18
_MODEL_ROWS = 1 << 16
_STEPS, _LAST_STEPS = 40, 400
_STREAM = 22012677


class Allowance:
    """What is left of a budget of squared mu. Exact."""

    def __init__(self, square: Fraction) -> None:
        self.left = square

    def spend(self, square: Fraction) -> None:
        """Take a part before the step that it pays for. Raises RuntimeError if there is not enough."""
        if not 0 < square <= self.left:
            raise RuntimeError("a step would exceed the budget of its release")
        self.left -= square

    def measured(self, counts: IntArray, square: Fraction, *, tables: int = 1) -> tuple[FloatArray, float]:
        """Pay `square` for noisy counts of `tables` tables. Return them, and the standard deviation of one."""
        self.spend(square)
        scale = _scale(square, tables=tables)
        return noisy(counts * _FINENESS, scale=scale) / _FINENESS, scale / _FINENESS

    def chosen(self, scores: IntArray, square: Fraction, *, sensitivity: int) -> int:
        """Pay at most `square` for the index of a large score."""
        epsilon_nano = math.isqrt(int(square / _BOUNDED_RANGE * NANO**2))
        self.spend(_BOUNDED_RANGE * Fraction(epsilon_nano, NANO) ** 2)
        return exponential_mechanism(scores, epsilon_nano=epsilon_nano, sensitivity=sensitivity)


def _scale(square: Fraction, *, tables: int = 1) -> int:
    """Return the noise scale of counts of `tables` tables that is worth `square`. Raises OutOfRange above 2^20."""
    multiplier = math.nextafter(math.sqrt(1 / square), math.inf)
    return noise_scale(multiplier, squared_sensitivity=2 * tables * _FINENESS**2)


@dataclass(frozen=True)
class AimPlan:
    """Squared mu of all, of the counts of each column, and of the first of the rounds; fixed before a row is read."""

    whole: Fraction
    first: Fraction
    each: Fraction


def aim_plan(schema: TableSchema, noise_multiplier: float) -> AimPlan:
    """Return the plan. Raises: InvalidInput for too many columns, OutOfRange for a budget too small."""
    columns = len(schema.columns)
    if columns > COLUMNS_MAX:
        raise InvalidInput(f"aim takes at most {COLUMNS_MAX} columns. Use pearl or marginals.", field="schema.columns")
    whole = 1 / Fraction(noise_multiplier) ** 2
    first = whole * _FIRST if columns > 1 else whole
    rounds = min(_ROUNDS * (columns + 1), _ROUNDS_MAX)
    plan = AimPlan(whole, first, (whole - whole * _FIRST) / rounds)
    _scale(plan.first, tables=columns)
    _scale(plan.each * (1 - _CHOICE))
    return plan


@dataclass(frozen=True, eq=False)
class AimRelease:
    """The released model; public. Its attributes are the columns, each in groups of cells, and the label, if any, last.

    `nodes` are the cliques of a junction tree, `conditionals` their laws given what they share with their parents.
    `groups` has the group of each cell of a column, int64 `[cells]`; `laws` the probability of each cell, given its
    group and the class, float64 `[classes, cells]`. `classes`: the sizes. `noise`: the standard deviation of the counts
    of a column. `rows`: n if it is public, else None.
    """

    schema: TableSchema
    rows: int | None
    noise: float
    classes: FloatArray
    groups: tuple[IntArray, ...]
    laws: tuple[FloatArray, ...]
    nodes: tuple[Node, ...]
    conditionals: tuple[FloatArray, ...]

    def facts(self) -> dict[str, Any]:
        """Return what `of` needs besides the arrays and the schema, as JSON."""
        nodes = [[node.clique, node.parent, node.shared] for node in self.nodes]
        return {"rows": self.rows, "noise": self.noise, "nodes": nodes}

    def arrays(self) -> dict[str, FloatArray]:
        """Return the arrays with their names, in the order of `of`."""
        columns = range(len(self.groups))
        found = {"classes": self.classes}
        found |= {f"groups.{j}": self.groups[j].astype(np.float64) for j in columns}
        found |= {f"laws.{j}": self.laws[j] for j in columns}
        return found | {f"cliques.{i}": each for i, each in enumerate(self.conditionals)}

    @classmethod
    def of(cls, schema: TableSchema, facts: Mapping[str, Any], arrays: Sequence[FloatArray]) -> Self:
        """Build the release from the results of `facts` and `arrays`. Raises ValueError if they do not fit.

        Also raises LookupError or TypeError for facts of another form.
        """
        columns, cells = len(schema.columns), [len(each) for each in all_cells(schema, BINS)]
        classes, *rest = arrays
        groups = tuple(each.astype(np.int64) for each in rest[:columns])
        laws, conditionals = tuple(rest[columns : 2 * columns]), tuple(rest[2 * columns :])
        nodes = tuple(Node(tuple(clique), parent, tuple(shared)) for clique, parent, shared in facts["nodes"])
        shapes = [(schema.classes,), *((each,) for each in cells), *((schema.classes, each) for each in cells)]
        sizes = sizes_of(schema, groups)
        shapes += [tuple(sizes[i] for i in node.clique) for node in nodes]
        if [each.shape for each in arrays] != shapes or not all((each >= 0).all() for each in arrays):
            raise ValueError("the arrays are not a release by aim")
        if {i for node in nodes for i in node.clique} != set(range(len(sizes))):
            raise ValueError("the cliques do not hold every column")
        return cls(schema, facts["rows"], facts["noise"], classes, groups, laws, nodes, conditionals)

    def sample(self, count: int) -> EncodedTable:
        """Draw `count` synthetic rows from the model. Raises InvalidInput for a count below 1."""
        if count < 1:
            raise InvalidInput("At least one row is needed.", field="rows")
        generator = noise_generator()
        sizes = sizes_of(self.schema, self.groups)
        rows = draw_rows(sizes, self.nodes, self.conditionals, count, generator)
        labels = rows[:, -1] if self.schema.label is not None else np.zeros(count, dtype=np.int64)
        codes = np.empty((count, len(self.groups)), dtype=np.int16)
        for j, cells in enumerate(all_cells(self.schema, BINS)):
            law = np.zeros((self.schema.classes, sizes[j], len(cells)))
            law[:, self.groups[j], np.arange(len(cells))] = self.laws[j]
            reached = np.cumsum(law.reshape(-1, len(cells)), axis=1)
            place = labels * sizes[j] + rows[:, j]
            level = generator.random(count) * reached[place, -1]
            cell = np.minimum((reached[place] <= level[:, None]).sum(axis=1), len(cells) - 1)
            codes[:, j] = generator.integers(cells.first[cell], cells.last[cell] + 1)
        return EncodedTable(self.schema, codes, labels.astype(np.int16))


def sizes_of(schema: TableSchema, groups: Sequence[IntArray]) -> tuple[int, ...]:
    """Return the number of values of each attribute of the model."""
    label = () if schema.label is None else (schema.classes,)
    return (*(int(each.max()) + 1 for each in groups), *label)


def aim_release(table: EncodedTable, *, budget: RecordBudget, rows_are_public: bool) -> AimRelease:
    """Make one release of the table, to be charged as `budget.event(AIM)`; see the module docstring.

    Raises: InvalidInput for too many columns, OutOfRange for a budget too small; both before anything is drawn.
    """
    schema = table.schema
    plan = aim_plan(schema, budget.noise_multiplier)
    allowance = Allowance(plan.whole)
    cells = all_cells(schema, BINS)
    placed = [_cell_of(each, table.codes[:, j]) for j, each in enumerate(cells)]
    exact = [_joint(table.labels, schema.classes, codes, len(each)) for codes, each in zip(placed, cells, strict=True)]
    flat, noise = allowance.measured(np.concatenate([each.ravel() for each in exact]), plan.first, tables=len(cells))
    ends = np.cumsum(np.array([each.size for each in exact]))[:-1]
    counts = [part.reshape(each.shape) for part, each in zip(np.split(flat, ends), exact, strict=True)]
    rows = len(table) if rows_are_public else None
    weights = np.array([1 / len(each) for each in cells])
    total = float(rows or max(1.0, weights @ np.array([each.sum() for each in counts]) / weights.sum()))
    groups = tuple(groups_of(*pair, total=total, deviation=noise) for pair in zip(schema.columns, counts, strict=True))
    laws = tuple(_law(each, group, noise) for each, group in zip(counts, groups, strict=True))
    model = Model(sizes_of(schema, groups), total)
    first = [_first_measurement(schema, j, counts[j], groups[j], noise) for j in range(len(cells))]
    attributes = [group[codes].astype(np.int32) for group, codes in zip(groups, placed, strict=True)]
    if schema.label is not None:
        attributes.append(table.labels.astype(np.int32))
    _rounds(model, first, attributes, allowance, plan, labelled=schema.label is not None)
    return AimRelease(
        schema=schema,
        rows=rows,
        noise=noise,
        classes=_class_sizes(model, schema),
        groups=groups,
        laws=laws,
        nodes=tuple(model.nodes),
        conditionals=tuple(model.conditionals),
    )


def _rounds(
    model: Model,
    measurements: list[Measurement],
    attributes: Sequence[npt.NDArray[np.int32]],
    allowance: Allowance,
    plan: AimPlan,
    *,
    labelled: bool,
) -> None:
    """Choose and measure sets until nothing is left, and fit the model to all that was measured."""
    sets = candidates(model.sizes, labelled=labelled)
    if len(attributes) == 1 or not allowance.left:
        model.fit(measurements, steps=_LAST_STEPS)
        return
    weights = _weights(sets, len(attributes) - labelled)
    exact = [_counts(attributes, each, model.sizes) for each in sets]
    model.fit(measurements, steps=_STEPS)
    expected = _expected(model, sets)
    share = plan.each
    while allowance.left > 0:
        last = allowance.left < 2 * share
        share = allowance.left if last else share
        deviation = _scale(share * (1 - _CHOICE)) / _FINENESS
        open_ = _affordable(model, sets, float(1 - (allowance.left - share) / plan.whole))
        scores = [_score(exact[i], expected[i], weights[i], deviation) for i in open_]
        sensitivity = 2 * _FINENESS * max(weights[i] for i in open_)
        chosen = open_[allowance.chosen(np.array(scores), share * _CHOICE, sensitivity=sensitivity)]
        square = allowance.left if last else share * (1 - _CHOICE)
        counts, deviation = allowance.measured(exact[chosen], square)
        shape = [model.sizes[i] for i in sets[chosen]]
        measurements.append(Measurement(sets[chosen], counts.reshape(shape), np.array(deviation)))
        model.fit(measurements, steps=_LAST_STEPS if last else _STEPS)
        if not last:
            before, expected = expected[chosen], _expected(model, sets)
            if int(np.abs(expected[chosen] - before).sum()) <= _penalty(deviation, len(before)):
                share *= 4


def candidates(sizes: Sequence[int], *, labelled: bool) -> list[Attributes]:
    """Return the sets that may be measured, in a public order: up to three columns, with and without the label.

    With too many sets those without the label are left out, or those of three columns. Sets of too many cells are left
    out as well. Tables of few columns also have sets of four and five columns, of few cells each.
    """
    columns = len(sizes) - labelled
    found: list[Attributes] = []
    for order in range(1, min(columns, _FEW_CELLS_ORDER_MAX) + 1):
        sets_max = _SETS_MAX if order <= ORDER_MAX else _FEW_CELLS_SETS_MAX
        if order > ORDER_MAX and math.comb(columns, order) > sets_max:
            break
        cells_max = _SET_CELLS_MAX if order <= ORDER_MAX else _FEW_CELLS
        every = list(combinations(range(columns), order))
        alone, joint = (
            [each for each in sets if math.prod(sizes[i] for i in each) <= cells_max]
            for sets in (every, [(*each, columns) for each in every] if labelled else [])
        )
        if len(found) + len(alone) + len(joint) <= sets_max:
            found += alone + joint
        elif joint and len(found) + len(joint) <= sets_max:
            found += joint
    reached = np.cumsum([math.prod(sizes[i] for i in each) for each in found])
    return [each for each, cells in zip(found, reached, strict=True) if cells <= _CELLS_MAX]


def _weights(sets: Sequence[Attributes], columns: int) -> list[int]:
    """Return how many attributes each set shares with all sets of three columns and the label, in proportion; of more
    columns than three, three count."""
    order = min(columns, ORDER_MAX)
    return [order * min(order, sum(i < columns for i in each)) + columns * (columns in each) for each in sets]


def _affordable(model: Model, sets: Sequence[Attributes], used: float) -> list[int]:
    """Return the sets that leave the model within its share of cells: those inside a clique, and small additions."""
    inside = [any(set(each) <= set(node.clique) for node in model.nodes) for each in sets]
    further = [i for i, within in enumerate(inside) if not within]
    cells = model_cells(model.sizes, [node.clique for node in model.nodes], [sets[i] for i in further])
    fitting = {i for i, size in zip(further, cells, strict=True) if size <= used * _MODEL_CELLS}
    return [i for i, within in enumerate(inside) if within or i in fitting]


def _score(exact: IntArray, expected: IntArray, weight: int, deviation: float) -> int:
    error = int(np.abs(_FINENESS * exact - expected).sum())
    return weight * (error - _penalty(deviation, len(exact)))


def _penalty(deviation: float, cells: int) -> int:
    """Return the expected absolute error of so many noisy counts, in units of 1/_FINENESS."""
    return round(_FINENESS * math.sqrt(2 / math.pi) * deviation * cells)


def _expected(model: Model, sets: Sequence[Attributes]) -> list[IntArray]:
    """Return the counts of each set in rows of the model, in units of 1/_FINENESS, rounded. Deterministic."""
    rows = model.draw(_MODEL_ROWS, np.random.Generator(np.random.PCG64(_STREAM)))
    attributes = list(rows.T.astype(np.int32))
    unit = _FINENESS * model.total / _MODEL_ROWS
    return [np.rint(_counts(attributes, each, model.sizes) * unit).astype(np.int64) for each in sets]


def _counts(attributes: Sequence[npt.NDArray[np.int32]], chosen: Attributes, sizes: Sequence[int]) -> IntArray:
    """Return the number of rows in each cell of some attributes, int64 `[cells]`."""
    flat = attributes[chosen[0]]
    for i in chosen[1:]:
        flat = flat * np.int32(sizes[i]) + attributes[i]
    return np.bincount(flat, minlength=math.prod(sizes[i] for i in chosen))


def _cell_of(cells: Cells, codes: npt.NDArray[np.int16]) -> IntArray:
    return np.searchsorted(cells.first, codes, side="right") - 1


def _joint(labels: npt.NDArray[np.int16], classes: int, codes: IntArray, size: int) -> IntArray:
    return np.bincount(labels * np.int64(size) + codes, minlength=classes * size).reshape(classes, size)


def groups_of(column: Column, counts: FloatArray, *, total: float, deviation: float) -> IntArray:
    """Return the group of each cell of a column, from its noisy counts `[classes, cells]`: int64 `[cells]`.

    A cell of many rows is a group of its own. The rare categories are one group, the other cells of a numeric column
    groups of neighbours with enough rows.
    """
    mass = nearest(counts.sum(axis=0), total)
    least = _DEVIATIONS * deviation * math.sqrt(len(counts))
    groups = np.zeros(len(mass), dtype=np.int64)
    if isinstance(column, CategoricalColumn):
        own = np.argsort(-mass, kind="stable")[: _CATEGORIES - 1]
        own = np.sort(own[mass[own] >= least])
        groups[:] = len(own)
        groups[own] = np.arange(len(own))
    else:
        heavy = mass >= max(least, total / _GROUPS)
        light = max(least, float(mass[~heavy].sum()) / max(1, _GROUPS - int(heavy.sum())))
        current, gathered, following = -1, light, 0
        for i, rows in enumerate(mass):
            if heavy[i]:
                groups[i], following = following, following + 1
                continue
            if gathered >= light:
                current, gathered, following = following, 0.0, following + 1
            groups[i] = current
            gathered += float(rows)
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _law(counts: FloatArray, groups: IntArray, deviation: float) -> FloatArray:
    """Return the probability of each cell given its group and class, float64 `[classes, cells]`.

    A class with too few rows in a group has the law of all classes.
    """
    law = np.empty_like(counts)
    for group in range(int(groups.max()) + 1):
        inside = groups == group
        size = int(inside.sum())
        together = _shares(counts[:, inside].sum(axis=0))
        for label, row in enumerate(counts[:, inside]):
            certain = row.sum() >= _DEVIATIONS * deviation * size
            law[label, inside] = _shares(row) if certain else together
    return law


def _shares(counts: FloatArray) -> FloatArray:
    """Return the nearest probabilities; uniform ones without rows."""
    total = float(counts.sum())
    return nearest(counts, total) / total if total > 0 else np.full(len(counts), 1 / len(counts))


def _first_measurement(
    schema: TableSchema, column: int, counts: FloatArray, groups: IntArray, deviation: float
) -> Measurement:
    """Return the measurement of a column's groups and the label."""
    sizes = np.bincount(groups)
    joined = np.zeros((len(sizes), len(counts)))
    np.add.at(joined, groups, counts.T)
    deviations = deviation * np.sqrt(sizes)[:, None]
    if schema.label is None:
        return Measurement((column,), joined[:, 0], deviations[:, 0])
    return Measurement((column, len(schema.columns)), joined, deviations)


def _class_sizes(model: Model, schema: TableSchema) -> FloatArray:
    """Return the model's class sizes."""
    if schema.label is None:
        return np.array([model.total])
    label = len(model.sizes) - 1
    drawn = model.draw(_MODEL_ROWS, np.random.Generator(np.random.PCG64(_STREAM)))[:, label]
    sizes: FloatArray = np.bincount(drawn, minlength=schema.classes).astype(np.float64) * (model.total / _MODEL_ROWS)
    return sizes
