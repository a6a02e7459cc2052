"""The `dp` fill's draw: its exact price, its distribution, and what large epsilons and ugly logits do to it."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from audit_kit import RUNS, epsilon_bound
from scipy import stats

from core.amounts import NANO
from core.mechanisms.token_selection import GRID, scores, select
from core.mechanisms.weight_range import draw_epsilon_nano, draw_range_nano


def brute_force(range_: float, candidates: int) -> float:
    """The largest log-ratio over all pairs of score vectors at the corners, where the maximum of a ratio of
    linear-fractional functions lies."""
    corners = list(itertools.product((0.0, range_), repeat=candidates))
    worst = 0.0
    for first, second in itertools.product(corners, repeat=2):
        for y in range(candidates):
            left = first[y] - math.log(sum(map(math.exp, first)))
            right = second[y] - math.log(sum(map(math.exp, second)))
            worst = max(worst, left - right)
    return worst


@pytest.mark.parametrize("candidates", [2, 3, 4])
@pytest.mark.parametrize("range_", [0.001, 0.5, 1.0, 4.0, 20.0])
def test_the_price_is_the_largest_ratio_of_all_score_vectors(range_: float, candidates: int) -> None:
    priced = draw_epsilon_nano(round(range_ * NANO), candidates=candidates)
    assert priced / NANO == pytest.approx(brute_force(range_, candidates), abs=1.5e-9)


@pytest.mark.parametrize("candidates", [2, 50, 4096, 10**6])
@pytest.mark.parametrize("range_nano", [1, 10**6, 7 * NANO, 125 * NANO, 10**6 * NANO, 4 * 10**6 * NANO])
def test_the_price_is_never_rounded_down(range_nano: int, candidates: int) -> None:
    with mpmath.workprec(400):
        r, v = mpmath.mpf(range_nano) / NANO, mpmath.mpf(candidates)
        q = mpmath.exp(-r)
        exact = (r + mpmath.log((q + v - 1) / (1 + (v - 1) * q))) * NANO
        priced = draw_epsilon_nano(range_nano, candidates=candidates)
        assert exact <= priced <= exact + 1.001


@pytest.mark.parametrize("candidates", [2, 1024, 4096])
@pytest.mark.parametrize("epsilon_nano", [1, 2, 10**6, NANO, 10 * NANO, 250 * NANO, 4 * 10**6 * NANO])
def test_the_range_is_the_largest_that_the_epsilon_pays(epsilon_nano: int, candidates: int) -> None:
    range_nano = draw_range_nano(epsilon_nano, candidates=candidates)
    assert draw_epsilon_nano(range_nano, candidates=candidates) <= epsilon_nano
    if range_nano < 4 * 10**6 * NANO:
        assert draw_epsilon_nano(range_nano + 1, candidates=candidates) > epsilon_nano


def test_draws_follow_the_weights() -> None:
    scored = np.array([GRID, GRID // 2, 0, 0, GRID // 4])
    weights = np.exp(2.0 * scored / GRID)
    drawn = np.bincount([select(scored, range_nano=2 * NANO) for _ in range(20_000)], minlength=5)
    assert stats.chisquare(drawn, 20_000 * weights / weights.sum()).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [100, 250])
def test_large_epsilons_keep_every_candidate_in_exact_proportion(epsilon: int) -> None:
    """In float32 a softmax at these epsilons gives every candidate but one a weight of exactly 0."""
    range_nano = draw_range_nano(epsilon * NANO, candidates=4096)
    logits = np.full((1, 4096), -1e30, dtype=np.float32)
    logits[0, :2] = 3e30, 3e30
    scored = scores(logits, clip=10.0)[0]
    drawn = {select(scored, range_nano=range_nano) for _ in range(64)}
    assert drawn == {0, 1}
    # a gap of a few grid steps is still a matter of chance, in the right proportion
    near = np.zeros(4096, dtype=np.int64)
    step = math.ceil(GRID * NANO / range_nano)
    near[7], near[8] = GRID, GRID - step
    hits = np.bincount([select(near, range_nano=range_nano) for _ in range(4_000)], minlength=4096)
    share = 1 / (1 + math.exp(-range_nano / NANO * step / GRID))
    assert hits[7] + hits[8] == 4_000
    assert stats.binomtest(int(hits[7]), 4_000, share).pvalue > 1e-6


def test_scores_lie_on_the_grid_whatever_the_logits() -> None:
    logits = np.array([[3.4e38, -3.4e38, 0.0], [1.0, 0.75, -9.0], [-5.0, -5.0, -5.0]], dtype=np.float32)
    assert scores(logits, clip=1.0).tolist() == [[GRID, 0, 0], [GRID, GRID * 3 // 4, 0], [GRID] * 3]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        scores(np.array([[0.0, bad]], dtype=np.float32), clip=1.0)


def test_without_a_range_the_draw_is_uniform() -> None:
    drawn = np.bincount([select(np.array([GRID, 0, 0, 0]), range_nano=0) for _ in range(8_000)], minlength=4)
    assert stats.chisquare(drawn).pvalue > 1e-6


def audit(range_nano: int, runs: int, candidates: int = 4) -> float:
    """A lower bound on the epsilon of one draw, from the worst pair of score vectors."""
    high = np.array([GRID] + [0] * (candidates - 1))
    often = sum(select(high, range_nano=range_nano) == 0 for _ in range(runs))
    seldom = sum(select(GRID - high, range_nano=range_nano) == 0 for _ in range(runs))
    return epsilon_bound(often, seldom, runs)


@pytest.mark.parametrize("epsilon", [1, 4])
def test_an_audit_stays_under_the_claim_and_near_it(epsilon: int) -> None:
    found = audit(draw_range_nano(epsilon * NANO, candidates=4), RUNS)
    assert 0.8 * epsilon < found <= epsilon


def test_the_audit_finds_a_range_taken_for_the_epsilon() -> None:
    """The planted bug: R = eps, as if weights e^R were the whole price."""
    assert audit(2 * NANO, RUNS) > 2.0
