"""The exact price of a draw whose weights may all move."""

import itertools
import math

import mpmath
import pytest

from core.amounts import NANO
from core.mechanisms.words.pricing import draw_epsilon_nano


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


def test_the_price_is_the_largest_ratio_of_all_score_vectors() -> None:
    for candidates in [2, 3, 4]:
        for range_ in [0.001, 0.5, 1.0, 4.0, 20.0]:
            priced = draw_epsilon_nano(round(range_ * NANO), candidates=candidates)
            assert priced / NANO == pytest.approx(brute_force(range_, candidates), abs=1.5e-9)


def test_the_price_is_never_rounded_down() -> None:
    for candidates in [2, 50, 4096, 10**6]:
        for range_nano in [1, 10**6, 7 * NANO, 125 * NANO, 10**6 * NANO, 4 * 10**6 * NANO]:
            with mpmath.workprec(400):
                r, v = mpmath.mpf(range_nano) / NANO, mpmath.mpf(candidates)
                q = mpmath.exp(-r)
                exact = (r + mpmath.log((q + v - 1) / (1 + (v - 1) * q))) * NANO
                priced = draw_epsilon_nano(range_nano, candidates=candidates)
                assert exact <= priced <= exact + 1.001
