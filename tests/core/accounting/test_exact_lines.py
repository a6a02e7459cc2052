"""The exact lines, Gaussian releases and equal pure ones, against their definitions in mpmath at every extreme.

A bound holds if the true delta at it is at most the delta asked for, and it is tight if a little below it that fails.
"""

import itertools
import math
from collections.abc import Iterator

import exact_kit
import mpmath
import pytest
from mpmath import mpf

from core.accounting.exact import delta_of_gaussian, epsilon_of_gaussian, epsilon_of_pure

NEAR_ONE = 1 - 2.0**-53
MUS = (1e-12, 1e-9, 1e-7, 3e-7, 1e-5, 1e-3, 0.05, 0.1, 0.11, 0.5, 1.0, 1.36, 5.0, 20.0, 40.0, 1e3, 1.3e6)
DELTAS = (1e-30, 1e-22, 1e-13, 1e-9, 1e-5, 0.1, 0.5, 0.51, 0.9, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1 - 1e-15, NEAR_ONE)


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mpmath.workdps(exact_kit.DIGITS):
        yield


def check(curve: exact_kit.Curve, bound: float, delta: float, margin: float, case: object) -> None:
    assert bound >= 0, case
    assert curve(mpf(bound)) <= mpf(delta), case
    if bound > 0:
        assert margin >= mpf(bound) or curve(mpf(bound) - margin) > mpf(delta), case


def test_a_gaussian_bound_is_never_under_the_truth_and_tight() -> None:
    for mu in MUS:
        curve = exact_kit.gaussian(mu)
        for delta in DELTAS:
            bound = epsilon_of_gaussian(delta, mu)
            check(curve, bound, delta, 3e-13 * (bound + 10 * mu), (mu, delta))


def test_the_gaussian_curve_keeps_its_digits() -> None:
    for mu in MUS:
        for at in (0.0, 0.1, 1.0, 4.0, 8.0):
            epsilon = mu * mu / 2 + at * mu
            with mpmath.workdps(exact_kit.DIGITS + 20):
                true = exact_kit.gaussian(mu)(mpf(epsilon))
            # epsilon / mu is rounded, as if epsilon were off by as much
            allowed = 1e-12 + 4e-16 * (at + 1) * (epsilon / mu + mu)
            assert abs(delta_of_gaussian(epsilon, mu) / true - 1) <= allowed, (mu, at)


def pure_margin(bound: float, epsilon: float, count: int) -> float:
    deviation = math.sqrt(count) / (2 * math.cosh(epsilon / 2))
    return (1e-11 + 1e-12 * deviation) * (bound + 2 * epsilon * deviation + epsilon)


PURE_DELTAS = (1e-13, 1e-5, 0.3, 0.5, 0.9, 1 - 1e-9, NEAR_ONE)


def test_a_pure_bound_is_never_under_the_truth_and_tight() -> None:
    for epsilon in [1e-6, 1e-3, 0.1, 1, 10, 100]:
        for count in [1, 2, 3, 50, 999, 10_001]:
            curve = exact_kit.pure(epsilon, count)
            for delta in PURE_DELTAS:
                bound = epsilon_of_pure(delta, epsilon, count)
                check(curve, bound, delta, pure_margin(bound, epsilon, count), (count, epsilon, delta))


def test_a_pure_bound_of_very_many_releases() -> None:
    for count, epsilon, delta in ((600_000_000, 1e-4, 1e-5), (10**9, 1e-3, 1e-6)):
        bound = epsilon_of_pure(delta, epsilon, count)
        check(exact_kit.pure(epsilon, count), bound, delta, pure_margin(bound, epsilon, count), (count, epsilon))


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 1e-2, 1, 10, 100])
@pytest.mark.parametrize("count", [10**6, 5 * 10**8 + 1, 10**9, 2 * 10**9])
def test_a_pure_bound_at_every_extreme(count: int, epsilon: float) -> None:
    curve = exact_kit.pure(epsilon, count)
    for delta in (*PURE_DELTAS, 1e-9):
        bound = epsilon_of_pure(delta, epsilon, count)
        check(curve, bound, delta, pure_margin(bound, epsilon, count), (count, epsilon, delta))


@pytest.mark.long
def test_a_gaussian_bound_on_a_fine_grid() -> None:
    for exponent, delta in itertools.product(range(-48, 25), DELTAS):
        mu = 10 ** (exponent / 4)
        bound = epsilon_of_gaussian(delta, mu)
        check(exact_kit.gaussian(mu), bound, delta, 3e-13 * (bound + 10 * mu), (mu, delta))
