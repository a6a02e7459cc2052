"""What AIM spends, what a row moves, and what its model keeps."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import norm
from synthesis_kit import table_of, toy_schema

from core.amounts import NANO
from core.errors import InvalidInput, OutOfRange
from core.mechanisms.samplers.exact import exponential_mechanism
from core.synthesis import aim_release as module
from core.synthesis.aim_release import AimRelease, Allowance, aim_plan, aim_release
from core.synthesis.columns import STEPS
from core.synthesis.encoding import EncodedTable
from core.synthesis.plan import release_bytes, release_of
from core.synthesis.pricing import noisy, record_budget
from core.synthesis.schema import TableSchema, table_schema


class Draws(NamedTuple):
    """The integers and scale of each addition of noise; the scores, epsilon and sensitivity of each choice."""

    noised: list[tuple[np.ndarray, int]]
    chosen: list[tuple[np.ndarray, int, int]]


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Draws:
    seen = Draws([], [])

    def spied_noise(exact: np.ndarray, *, scale: int) -> np.ndarray:
        seen.noised.append((exact, scale))
        return noisy(exact, scale=scale)

    def spied_choice(scores: np.ndarray, *, epsilon_nano: int, sensitivity: int) -> int:
        seen.chosen.append((scores, epsilon_nano, sensitivity))
        return exponential_mechanism(scores, epsilon_nano=epsilon_nano, sensitivity=sensitivity)

    monkeypatch.setattr(module, "noisy", spied_noise)
    monkeypatch.setattr(module, "exponential_mechanism", spied_choice)
    return seen


def random_table(schema: TableSchema, rows: int) -> EncodedTable:
    draw = np.random.default_rng(3)
    numbers = draw.integers(0, STEPS + 1, (rows, len(schema.columns) - 1))
    codes = np.column_stack([numbers, numbers[:, 0] // 2_000]).astype(np.int16)
    labels = (numbers[:, 0] > 2_500).astype(np.int16) if schema.label else np.zeros(rows, dtype=np.int16)
    return EncodedTable(schema, codes, labels)


def tables() -> Iterator[tuple[EncodedTable, float]]:
    yield random_table(toy_schema(), 300), 1.0
    yield random_table(toy_schema(labelled=False), 300), 0.1
    yield random_table(toy_schema(numeric=3), 50), 8.0
    alone = table_schema({"columns": [{"name": "a", "kind": "categorical", "categories": ["x", "y"]}], "label": None})
    yield EncodedTable(alone, np.zeros((4, 1), dtype=np.int16), np.zeros(4, dtype=np.int16)), 1.0


def test_everything_together_costs_the_budget_and_never_more(draws: Draws) -> None:
    for table, epsilon in tables():
        budget = record_budget(epsilon, 1e-5)
        draws.noised.clear()
        draws.chosen.clear()
        aim_release(table, budget=budget, rows_are_public=True)
        together = len(table.schema.columns)
        spent = Fraction(0)
        for i, (_, scale) in enumerate(draws.noised):
            sensitivity = 2 * (together if i == 0 else 1) * module._FINENESS**2
            spent += Fraction(sensitivity, scale**2 - 16)
        spent += sum(Fraction(3927, 10_000) * Fraction(epsilon_nano, NANO) ** 2 for _, epsilon_nano, _ in draws.chosen)
        whole = 1 / Fraction(budget.noise_multiplier) ** 2
        assert 0.97 * whole < spent <= whole, "the scale of noise is a whole number, rounded up"
        assert len(draws.chosen) == len(draws.noised) - 1


def test_a_step_beyond_the_budget_draws_nothing(draws: Draws) -> None:
    allowance = Allowance(Fraction(1, 4))
    allowance.measured(np.zeros(3, dtype=np.int64), Fraction(1, 8))
    for square in (Fraction(1, 7), Fraction(0)):
        with pytest.raises(RuntimeError):
            allowance.measured(np.zeros(3, dtype=np.int64), square)
    with pytest.raises(RuntimeError):
        allowance.chosen(np.zeros(3, dtype=np.int64), Fraction(1, 7), sensitivity=1)
    assert len(draws.noised) == 1
    assert not draws.chosen


def test_bounded_range_costs_no_more_than_what_is_paid() -> None:
    """The largest mu over all t, beside epsilon sqrt(3927 / 10000)."""
    for epsilon in (0.001, 0.1, 1.0, 5.0, 20.0):
        t = np.linspace(0, epsilon, 1_001)[1:-1]
        p = (math.exp(epsilon) - np.exp(t)) / math.expm1(epsilon)
        largest = (norm.isf(np.expm1(t) / math.expm1(epsilon)) - norm.isf(1 - np.exp(-t) * p)).max()
        assert largest == pytest.approx(2 * norm.ppf(1 / (1 + math.exp(-epsilon / 2))), rel=1e-4)
        assert largest <= epsilon * math.sqrt(module._BOUNDED_RANGE)


def replayed(
    table: EncodedTable, answers: list[Any], patch: pytest.MonkeyPatch
) -> tuple[list[np.ndarray], list[tuple[np.ndarray, int]]]:
    """What is drawn about, if every draw answers with what `answers` holds; the first run fills it."""
    exact: list[np.ndarray] = []
    scored: list[tuple[np.ndarray, int]] = []
    place = iter(range(10_000))

    def answer(drawn: Any) -> Any:
        i = next(place)
        if i == len(answers):
            answers.append(drawn)
        return answers[i]

    def noise(counts: np.ndarray, *, scale: int) -> np.ndarray:
        exact.append(counts)
        return answer(noisy(counts, scale=scale))

    def choice(scores: np.ndarray, *, epsilon_nano: int, sensitivity: int) -> int:
        scored.append((scores, sensitivity))
        return answer(exponential_mechanism(scores, epsilon_nano=epsilon_nano, sensitivity=sensitivity))

    patch.setattr(module, "noisy", noise)
    patch.setattr(module, "exponential_mechanism", choice)
    aim_release(table, budget=record_budget(4, 1e-5), rows_are_public=True)
    return exact, scored


def test_a_replaced_row_moves_counts_and_scores_by_at_most_their_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(0, 4_096, 0, 0)] * 30 + [(2_000, 100, 1, 1)] * 30
    schema = toy_schema(numeric=2)
    used: list[float] = []
    for _ in range(3):
        answers: list[Any] = []
        before, scored = replayed(table_of(schema, rows), answers, monkeypatch)
        after, again = replayed(table_of(schema, [*rows[:-1], (4_096, 3_000, 2, 0)]), answers, monkeypatch)
        moves = [int(((a - b) ** 2).sum()) for a, b in zip(before, after, strict=True)]
        assert moves[0] == 2 * 3 * module._FINENESS**2
        assert set(moves[1:]) <= {0, 2 * module._FINENESS**2}
        shifts = [(np.abs(a - b).max(), sensitivity) for (a, sensitivity), (b, _) in zip(scored, again, strict=True)]
        assert all(shift <= sensitivity for shift, sensitivity in shifts)
        used += [shift / sensitivity for shift, sensitivity in shifts]
    assert max(used) >= 0.5, "the sensitivity is not twice what a row can move"


def exclusive_or(rows: int, odd: int = 3, further: int = 2) -> EncodedTable:
    """Columns of two values; the label is the parity of the first `odd` ones, which fewer of them do not show."""
    columns = [{"name": f"c{i}", "kind": "categorical", "categories": ["0", "1"]} for i in range(odd + further)]
    label = {"name": "label", "kind": "categorical", "categories": ["even", "odd"]}
    codes = np.random.default_rng(4).integers(0, 2, (rows, odd + further)).astype(np.int16)
    return EncodedTable(table_schema({"columns": columns, "label": label}), codes, codes[:, :odd].sum(axis=1) % 2)


def parity_kept(table: EncodedTable, odd: int = 3) -> float:
    return float((table.codes[:, :odd].sum(axis=1) % 2 == table.labels).mean())


def test_what_only_six_columns_show_together_is_kept() -> None:
    release = aim_release(exclusive_or(4_000, odd=5), budget=record_budget(2, 1e-5), rows_are_public=True)
    assert parity_kept(release.sample(2_000), odd=5) > 0.95


def test_what_only_four_columns_show_together_is_kept() -> None:
    for public in (True, False):
        release = aim_release(exclusive_or(4_000), budget=record_budget(2, 1e-5), rows_are_public=public)
        assert parity_kept(release.sample(2_000)) > 0.95
        assert release.rows == (4_000 if public else None)
        assert release.classes.sum() == pytest.approx(4_000, abs=400)


def test_numbers_keep_their_law_and_their_bounds() -> None:
    drawn = np.random.default_rng(6)
    zero = drawn.random(4_000) < 0.7
    numbers = np.where(zero, 0, np.where(drawn.random(4_000) < 0.5, 900, 3_000)).astype(np.int16)
    table = EncodedTable(toy_schema(), np.column_stack([numbers, zero]).astype(np.int16), zero.astype(np.int16))
    made = aim_release(table, budget=record_budget(4, 1e-5), rows_are_public=True).sample(4_000)
    assert (made.codes[:, 0] == 0).mean() == pytest.approx(0.7, abs=0.03)
    assert made.codes.min() >= 0
    assert made.codes[:, 0].max() <= STEPS
    high = (made.codes[:, 0] > 2_500) & (made.codes[:, 0] < 3_500)
    assert high.mean() == pytest.approx(0.15, abs=0.03)
    assert (made.codes[made.labels == 1, 0] == 0).mean() > 0.9


def test_a_release_comes_back_and_others_are_refused() -> None:
    release = aim_release(random_table(toy_schema(), 60), budget=record_budget(1, 1e-5), rows_are_public=True)
    again = release_of(release_bytes(release))
    assert isinstance(again, AimRelease)
    assert (again.facts()["nodes"], again.rows, again.noise) == (release.facts()["nodes"], 60, release.noise)
    assert all(np.array_equal(*pair) for pair in zip(release.arrays().values(), again.arrays().values(), strict=True))
    arrays = list(release.arrays().values())
    for broken in (arrays[:-1], arrays[::-1], [*arrays[:-1], -arrays[-1]]):
        with pytest.raises(ValueError, match="release"):
            AimRelease.of(release.schema, release.facts(), broken)


def test_what_is_too_large_or_too_cheap_is_refused_before_a_row_is_read() -> None:
    with pytest.raises(InvalidInput, match="at most 64 columns") as refused:
        aim_plan(toy_schema(numeric=64), 3.0)
    assert refused.value.field == "schema.columns"
    with pytest.raises(OutOfRange):
        aim_plan(toy_schema(), 1e5)
    release = aim_release(random_table(toy_schema(), 10), budget=record_budget(1, 1e-5), rows_are_public=True)
    with pytest.raises(InvalidInput):
        release.sample(0)


def test_many_wide_columns_stay_within_the_limits_of_candidates_and_cells() -> None:
    for values in (33, 2):
        found = module.candidates((values,) * 64 + (64,), labelled=True)
        assert 0 < len(found) <= module._SETS_MAX
        assert sum(math.prod(values if i < 64 else 64 for i in each) for each in found) <= module._CELLS_MAX
