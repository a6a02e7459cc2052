"""Audits of the releases of synthesis, on tables found by search.

The real release is run on both tables; what it hands to the noise, and the noise's scale, is then drawn anew for every
run, as the release draws it once. Of the best event, a half-space, the hits on either side bound
mu = sensitivity / standard deviation from below, which must stay under the mu of the event that is charged.

In that audit AIM chooses the last set each time. Its model is not fitted and no cells are joined for their noise, both
of which is post-processing. For its choices, which the exponential mechanism draws, a row of its own compares how far
the scores move after the same outputs with the sensitivity that is paid for.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from audit_kit import mu_bound
from audits.kit import Audit, Found, Scale
from synthesis_kit import table_of, toy_schema

from core.synthesis import aim_release, marginals_release, pearl_release
from core.synthesis.columns import STEPS
from core.synthesis.encoding import EncodedTable
from core.synthesis.pricing import RecordBudget, noisy, record_budget
from core.synthesis.schema import TableSchema

BUDGET = record_budget(4, 1e-5)
CLAIM = 1 / BUDGET.noise_multiplier
ReleaseRequest = Callable[[EncodedTable, RecordBudget], object]
_BATCH = 20_000


class Pair(NamedTuple):
    """Two tables of as many rows that differ in one."""

    module: ModuleType
    release: ReleaseRequest
    table: EncodedTable
    neighbour: EncodedTable
    facts: str


def pearl(table: EncodedTable, budget: RecordBudget, *, public: bool, frequencies: int = 1) -> object:
    design = pearl_release.Design.GAUSSIAN
    return pearl_release.pearl_release(
        table, frequencies=frequencies, budget=budget, rows_are_public=public, design=design
    )


def low_order(table: EncodedTable, budget: RecordBudget) -> object:
    return pearl_release.pearl_release(table, frequencies=4, budget=budget, rows_are_public=True)


def marginals(table: EncodedTable, budget: RecordBudget) -> object:
    return marginals_release.marginals_release(table, bins=2, budget=budget, rows_are_public=True)


def aim(table: EncodedTable, budget: RecordBudget, *, steps: int = 0) -> object:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_STEPS", steps), ("_LAST_STEPS", 0), ("_MODEL_ROWS", 64), ("_DEVIATIONS", 0)):
            patch.setattr(aim_release, name, value)
        return aim_release.aim_release(table, budget=budget, rows_are_public=True)


class Kind(NamedTuple):
    module: ModuleType
    release: ReleaseRequest
    schema: TableSchema


KINDS = {
    "pearl, n private": Kind(pearl_release, lambda t, b: pearl(t, b, public=False), toy_schema(numeric=24)),
    "pearl, n public": Kind(pearl_release, lambda t, b: pearl(t, b, public=True), toy_schema(numeric=24)),
    "pearl, low order": Kind(pearl_release, low_order, toy_schema()),
    "marginals": Kind(marginals_release, marginals, toy_schema(numeric=2)),
    "aim": Kind(aim_release, aim, toy_schema(numeric=2)),
}


def pairs(kind: Kind, seed: int) -> Iterator[Pair]:
    """Tables of two to four rows at the ends of their columns, or duplicates, and a replaced row."""
    rng = np.random.default_rng(seed)
    numeric = len(kind.schema.columns) - 1

    def row() -> tuple[int, ...]:
        ends = rng.choice([0, STEPS], size=numeric)
        inside = rng.integers(0, STEPS + 1, size=numeric)
        codes = np.where(rng.random(numeric) < rng.choice([0.0, 0.5, 1.0]), ends, inside)
        return *codes.tolist(), int(rng.integers(3)), int(rng.integers(2))

    while True:
        count = int(rng.integers(2, 5))
        rows = [row() for _ in range(count)]
        if rng.random() < 0.5:
            rows = [rows[0]] * count
        replaced = [*rows]
        place = int(rng.integers(count))
        replaced[place] = row()
        same = "of the same class" if replaced[place][-1] == rows[place][-1] else "of another class"
        first, second = table_of(kind.schema, rows), table_of(kind.schema, replaced)
        yield Pair(kind.module, kind.release, first, second, f"{count} rows, one replaced by another {same}")


class Choice(NamedTuple):
    """What a choice draws from."""

    scores: np.ndarray
    epsilon_nano: int
    sensitivity: int


def noised(pair: Pair, table: EncodedTable, choices: list[Choice] | None = None) -> list[tuple[np.ndarray, int]]:
    """(exact integers, scale) of every addition of noise of one release. `choices` gets those of the last table.

    A first stage answers with what the pair's first table gives it, so that both meet the second one with the same
    frequencies.
    """
    answers: list[np.ndarray] = []
    for current in (pair.table, table):
        seen: list[tuple[np.ndarray, int]] = []

        def spy(exact: np.ndarray, *, scale: int, seen: list[tuple[np.ndarray, int]] = seen) -> np.ndarray:
            seen.append((exact, scale))
            if len(answers) < len(seen):
                answers.append(exact)
            return answers[len(seen) - 1]

        chosen: list[Choice] = []

        def last(scores: np.ndarray, chosen: list[Choice] = chosen, **terms: int) -> int:
            chosen.append(Choice(scores, **terms))
            return len(scores) - 1

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair.module, "noisy", spy)
            if pair.module is aim_release:
                patch.setattr(aim_release, "exponential_mechanism", last)
            pair.release(current, BUDGET)
    if choices is not None:
        choices += chosen
    return seen


def stages(pair: Pair) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """For each addition of noise, what it is added to for either table, where they differ, and its scale."""
    found = []
    for (before, scale), (after, _) in zip(noised(pair, pair.table), noised(pair, pair.neighbour), strict=True):
        moved = (before != after).ravel()
        found.append((before.ravel()[moved], after.ravel()[moved], scale))
    return found


def mu_of(pair: Pair) -> float:
    """The mu of the pair if the noise is what its scale says."""
    squares = [float((((after - before) / scale) ** 2).sum()) for before, after, scale in stages(pair)]
    return float(np.sqrt(sum(squares)))


def mu_lower(pair: Pair, runs: int) -> float:
    """A lower bound of mu between the pair's tables (audit_kit)."""
    both = stages(pair)
    axes = [(after - before) / scale**2 for before, after, scale in both]
    middle = sum(float(axis @ (before + after)) / 2 for axis, (before, after, _) in zip(axes, both, strict=True))
    hits = [0, 0]
    for side in (0, 1):
        for start in range(0, runs, _BATCH):
            count = min(_BATCH, runs - start)
            gain = np.zeros(count)
            for axis, stage in zip(axes, both, strict=True):
                truth = np.asarray(stage[side])
                gain += noisy(np.broadcast_to(truth, (count, len(truth))), scale=stage[2]) @ axis
            hits[side] += int((gain > middle).sum())
    return mu_bound(hits[1], hits[0], runs)


def audited(kind: Kind, scale: Scale, *, seed: int) -> Found:
    looked = list(islice(pairs(kind, seed), scale.pairs))
    worst = max(looked, key=mu_of)
    return Found(mu_lower(worst, scale.runs), CLAIM, scale.runs, f"{worst.facts}; event: a half-space", len(looked))


def audited_choices(scale: Scale, *, seed: int) -> Found:
    """The largest move of a score, as a share of the sensitivity of its choice."""
    largest, count, facts = 0.0, 0, ""
    kind = KINDS["aim"]._replace(release=partial(aim, steps=5))
    for pair in islice(pairs(kind, seed), scale.pairs):
        both: list[list[Choice]] = [[], []]
        for table, seen in zip((pair.table, pair.neighbour), both, strict=True):
            noised(pair, table, seen)
        for before, after in zip(*both, strict=True):
            share = float(np.abs(before.scores - after.scores).max() / before.sensitivity)
            largest, facts = max((largest, facts), (share, pair.facts))
            count += 1
    return Found(largest, 1.0, count, facts, scale.pairs)


def audits() -> tuple[Audit, ...]:
    claim = f"mu {CLAIM:.3f}: epsilon 4, delta 1e-5"

    def run(kind: Kind, seed: int) -> Callable[[Scale], Found]:
        return lambda scale: audited(kind, scale.at_most(400_000, 400), seed=seed)

    releases = (
        Audit(
            name.replace(",", "").replace(" ", "-"),
            "tables",
            name,
            claim,
            "replace one row",
            run(kind, 71 + i),
            0.6,
            "mu",
        )
        for i, (name, kind) in enumerate(KINDS.items())
    )
    choice = Audit(
        "aim-choices",
        "tables",
        "aim, a choice",
        "bounded range: a score moves by its sensitivity",
        "replace one row",
        lambda scale: audited_choices(scale.at_most(1, 100), seed=79),
        0.6,
        "of the sensitivity",
    )
    return *releases, choice
