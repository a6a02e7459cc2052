"""The `dp` fill's draw: its exact price, its distribution, and what large epsilons and ugly logits do to it."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from tiers import cells

from core.amounts import NANO
from core.mechanisms.words.token_selection import GRID, scores, select


def brute_force(epsilon: float, candidates: int) -> float:
    """The largest log-ratio over all tokens and scores, these in steps of a quarter; None is a token off the list."""
    tokens = [None, *range(candidates)]
    worst = 0.0
    for scored in itertools.product((0.0, 0.25, 0.5, 0.75, 1.0), repeat=candidates):
        laws = []
        for own in tokens:
            weights = [math.exp(epsilon * (1.0 if y == own else g)) for y, g in enumerate(scored)]
            laws.append([weight / sum(weights) for weight in weights])
        for one, two in itertools.permutations(laws, 2):
            worst = max(worst, *(math.log(p / q) for p, q in zip(one, two, strict=True)))
    return worst


def test_epsilon_is_the_largest_ratio_over_all_tokens_and_scores() -> None:
    for candidates in [2, 3, 4]:
        for epsilon in [0.001, 0.5, 1.0, 4.0, 20.0]:
            assert brute_force(epsilon, candidates) == pytest.approx(epsilon, rel=1e-12)


def test_draws_follow_the_weights() -> None:
    for own in [None, 3]:
        scored = np.array([GRID, GRID // 2, 0, 0, GRID // 4])
        share = scored / GRID
        if own is not None:
            share[own] = 1.0
        weights = np.exp(2.0 * share)
        drawn = np.bincount([select(scored, own, epsilon_nano=2 * NANO) for _ in range(5_000)], minlength=5)
        assert stats.chisquare(drawn, 5_000 * weights / weights.sum()).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", cells([250, 100]))
def test_large_epsilons_keep_every_candidate_in_exact_proportion(epsilon: int) -> None:
    """In float32 a softmax at these epsilons gives every candidate but one a weight of exactly 0."""
    logits = np.full((1, 4096), -1e30, dtype=np.float32)
    logits[0, :2] = 3e30, 3e30
    scored = scores(logits, clip=10.0)[0]
    assert {select(scored, None, epsilon_nano=epsilon * NANO) for _ in range(64)} == {0, 1}
    # a gap of a few grid steps is still a matter of chance, in the right proportion
    near = np.zeros(4096, dtype=np.int64)
    step = math.ceil(GRID / epsilon)
    near[8] = GRID - step
    hits = np.bincount([select(near, 7, epsilon_nano=epsilon * NANO) for _ in range(4_000)], minlength=4096)
    share = 1 / (1 + math.exp(-epsilon * step / GRID))
    assert hits[7] + hits[8] == 4_000
    assert stats.binomtest(int(hits[7]), 4_000, share).pvalue > 1e-6


def test_scores_lie_on_the_grid_whatever_the_logits() -> None:
    logits = np.array([[3.4e38, -3.4e38, 0.0], [1.0, 0.75, -9.0], [-5.0, -5.0, -5.0]], dtype=np.float32)
    assert scores(logits, clip=1.0).tolist() == [[GRID, 0, 0], [GRID, GRID * 3 // 4, 0], [GRID] * 3]


def test_logits_that_are_not_finite_are_refused() -> None:
    for bad in [math.nan, math.inf, -math.inf]:
        with pytest.raises(ValueError, match="finite"):
            scores(np.array([[0.0, bad]], dtype=np.float32), clip=1.0)


def test_without_epsilon_the_draw_is_uniform() -> None:
    drawn = np.bincount([select(np.array([GRID, 0, 0, 0]), 0, epsilon_nano=0) for _ in range(8_000)], minlength=4)
    assert stats.chisquare(drawn).pvalue > 1e-6
