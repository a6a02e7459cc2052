"""Permute-and-flip is dominated by Laplace noise: the proof's inequality on every set, and its privacy curve.

The proof is in `core.accounting.filters._laplace`. The tests compute the mechanism's probabilities exactly on small
candidate sets, and compared for all sets of candidates and all corners of the neighbourhood.
"""

import itertools
import math
import random

import pytest


def probabilities(scores: tuple[float, ...], rate: float) -> list[float]:
    """Of each index: every coin of bias e^(rate (score - best)) is thrown, one of the heads is chosen uniformly."""
    best = max(scores)
    heads = [math.exp(rate * (score - best)) for score in scores]
    found = [0.0] * len(scores)
    for coins in itertools.product((0, 1), repeat=len(scores)):
        chance = math.prod(head if coin else 1 - head for head, coin in zip(heads, coins, strict=True))
        for index in itertools.compress(range(len(scores)), coins):
            found[index] += chance / sum(coins)
    return found


def laplace_cdf(x: float) -> float:
    return math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2


def laplace_power(p: float, epsilon: float) -> float:
    """L(L^-1(p) + epsilon): the largest probability of a set that has probability p before a shift by epsilon."""
    quantile = math.log(2 * p) if p < 0.5 else -math.log(2 * (1 - p))
    return laplace_cdf(quantile + epsilon)


def laplace_delta(at: float, epsilon: float) -> float:
    return (
        max(0.0, -math.expm1((at - epsilon) / 2)) if at >= 0 else 1 - math.exp(at) * (1 - laplace_delta(-at, epsilon))
    )


def largest_excess(scores: tuple[float, ...], epsilon: float, rate: float) -> tuple[float, float]:
    """By how much at most P'[S] passes the inequality of the proof, and a privacy curve that of Laplace noise.

    Over all sets S and all neighbours that move each score by -1, 0 or 1 (the sensitivity).
    """
    before = probabilities(scores, rate)
    over_sets = over_curve = -math.inf
    for moves in itertools.product((-1, 0, 1), repeat=len(scores)):
        after = probabilities(tuple(map(sum, zip(scores, moves, strict=True))), rate)
        for size in range(1, len(scores)):
            for chosen in itertools.combinations(range(len(scores)), size):
                p, q = sum(before[i] for i in chosen), sum(after[i] for i in chosen)
                over_sets = max(over_sets, q - laplace_power(p, epsilon))
        for step in range(-4, 17):
            at = step * epsilon / 12
            delta = sum(max(0.0, q - math.exp(at) * p) for p, q in zip(before, after, strict=True))
            over_curve = max(over_curve, delta - laplace_delta(at, epsilon))
    return over_sets, over_curve


def test_no_set_and_no_curve_passes_that_of_laplace_noise() -> None:
    for epsilon in [0.1, 1.0, 4.0]:
        for size in [2, 3, 4]:
            rng = random.Random(size)
            for _ in range(25):
                scores = tuple(rng.choice([rng.uniform(-3, 3), float(rng.randint(-2, 2))]) for _ in range(size))
                over_sets, over_curve = largest_excess(scores, epsilon, epsilon / 2)
                assert max(over_sets, over_curve) <= 1e-12, scores


def test_two_candidates_attain_it() -> None:
    """So nothing smaller than Laplace noise would do: for every probability a pair of inputs reaches it."""
    for gap in (-2.0, -0.5, 0.0, 0.7, 3.0):
        before, after = probabilities((0.0, gap), 0.5), probabilities((1.0, gap - 1), 0.5)
        assert after[0] == pytest.approx(laplace_power(before[0], 1.0), rel=1e-12)


def test_a_little_less_noise_would_pass_it() -> None:
    """The check can fail: coins of a bias for 2 % more epsilon."""
    assert min(largest_excess((0.0, 1.0), 1.0, 0.51)) > 5e-3
