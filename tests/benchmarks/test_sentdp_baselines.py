"""The baselines of the utility benchmark keep the guarantees that their rows state."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.sentdp.baselines import Box, ball_noise, document_selection, mean_laplace, subset_plan, truncation

DIMENSION = 24


def unit_rows(count: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("epsilon", [0.5, 3, 6, 10, 25])
def test_a_subset_is_at_most_e_to_the_epsilon_times_as_likely_for_another_document(epsilon: float) -> None:
    count, size, held = subset_plan(epsilon, 4096)
    # Subsets with the item are equally likely, and so are those without it.
    with_item = math.log(held) - math.log(math.comb(count - 1, size - 1))
    without = math.log(1 - held) - math.log(math.comb(count - 1, size))

    assert with_item - without == pytest.approx(epsilon, rel=1e-4)


def test_subsets_hold_the_item_as_often_as_planned() -> None:
    candidates, epsilon = unit_rows(64, 0), 3.0
    centre = np.zeros(DIMENSION, dtype=np.float32)
    documents = [candidates[[7]]] * 4_000
    _, size, held = subset_plan(epsilon, 64)

    released = document_selection(documents, epsilon, candidates, centre, np.random.default_rng(1))
    near = (released @ candidates[7]) * size  # the item adds 1, the others a random part

    assert 0 < held < 1
    assert near.mean() == pytest.approx(expected_product(candidates, size, held), abs=0.05)


def expected_product(candidates: np.ndarray, size: int, held: float) -> float:
    others = np.delete(candidates @ candidates[7], 7).mean()
    return float(held * (1 + (size - 1) * others) + (1 - held) * size * others)


def test_noise_of_the_ball_has_a_gamma_length() -> None:
    from scipy import stats

    lengths = np.linalg.norm(ball_noise((4_000, DIMENSION), np.random.default_rng(2)), axis=1)

    assert stats.kstest(lengths, stats.gamma(DIMENSION).cdf).pvalue > 1e-4


def test_laplace_scales() -> None:
    """Mean absolute noise of a Laplace variable is its scale; a ball's mean length is d times its scale."""
    source, epsilon, k = np.random.default_rng(3), 2.0, 5
    document = unit_rows(k, 4)
    box = Box.around(unit_rows(500, 5))
    noise = truncation([document] * 4_000, epsilon, box, source) - box.clip(document).mean(axis=0)
    lengths = np.linalg.norm(mean_laplace([document] * 4_000, epsilon, source) - document.mean(axis=0), axis=1)

    assert np.allclose(np.abs(noise).mean(axis=0), DIMENSION * (box.high - box.low) / (k * epsilon), rtol=0.1)
    assert lengths.mean() == pytest.approx(DIMENSION * 2 / (k * epsilon), rel=0.02)
