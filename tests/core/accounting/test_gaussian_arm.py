"""The Gaussian arm: its costs dominate, its cap is under the exact curve, and it admits nearly all that it could."""

import math

import exact_kit
import mpmath
from division_kit import division_of
from event_kit import event
from hypothesis import given, settings
from hypothesis import strategies as st

from core.accounting.exact import delta_of_gaussian
from core.accounting.filters import Division, Sums, admits, cost_of, divisions, gaussian_cap_nano, pure_square_nano
from core.amounts import FEMTO, NANO


def true_square(epsilon: mpmath.mpf) -> mpmath.mpf:
    """mu^2 of the Gaussian curve through the corner of the pure one, at 60 digits."""
    tail = 1 / (1 + mpmath.exp(epsilon))
    mu = 2 * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * tail) if epsilon < 30 else None
    if mu is None:  # 1 - 2 * tail has lost the tail: Newton on the logarithm
        mu = mpmath.findroot(lambda m: mpmath.log(mpmath.erfc(m / (2 * mpmath.sqrt(2))) / 2) - mpmath.log(tail), 4)
    return mu**2


def test_the_square_of_a_pure_release_is_the_true_one_rounded_up() -> None:
    for nano in [1, 17, 10**3, 10**6 - 1, 10**6, 10**7, NANO, 3 * NANO, 12 * NANO, 39 * NANO, 41 * NANO]:
        with mpmath.workdps(60):
            true = true_square(mpmath.mpf(nano) / NANO) * NANO
            found = pure_square_nano(nano)
            slack = 1 + (mpmath.mpf("1e-6") if nano < 40 * NANO else mpmath.mpf("0.1"))
            assert true <= found <= true * slack + 1


@given(nano=st.integers(1, 10**15), step=st.integers(1, 10**9))
@settings(deadline=None)
def test_a_larger_epsilon_never_costs_less(nano: int, step: int) -> None:
    assert pure_square_nano(nano) <= pure_square_nano(nano + step)


def test_the_gaussian_curve_lies_under_that_of_randomised_response() -> None:
    """For every threshold, hence for every event: delta of mu-GDP is at least delta of the pure release."""
    for epsilon in [0.01, 0.5, 1.0, 4.0, 12.0]:
        mu = math.sqrt(pure_square_nano(round(epsilon * NANO)) / NANO)
        keep = 1 / (1 + math.exp(-epsilon))
        for part in range(100):
            at = epsilon * part / 100
            pure = max(0.0, keep - math.exp(at) * (1 - keep))
            assert delta_of_gaussian(at, mu) >= pure


def true_delta(square_nano: int) -> exact_kit.Curve:
    return exact_kit.gaussian(mpmath.sqrt(mpmath.mpf(square_nano) / NANO))


def test_the_cap_is_the_largest_that_the_exact_curve_admits() -> None:
    for epsilon in [1e-6, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]:
        for delta in [1e-13, 1e-9, 1e-5, 0.01, 0.9]:
            cap = gaussian_cap_nano(round(epsilon * NANO), round(delta * FEMTO))
            with mpmath.workdps(60 + int(epsilon)):
                at, target = mpmath.mpf(round(epsilon * NANO)) / NANO, mpmath.mpf(round(delta * FEMTO)) / FEMTO
                if cap > 0:
                    assert true_delta(cap)(at) <= target
                assert true_delta(math.ceil(cap * (1 + 1e-5)) + 2)(at) > target


def test_no_delta_no_arm() -> None:
    assert gaussian_cap_nano(NANO, 0) == gaussian_cap_nano(0, FEMTO // 2) == gaussian_cap_nano(NANO, FEMTO) == -1


def test_gaussian_releases_go_nearly_as_far_as_exact_composition() -> None:
    for epsilon, delta in [(10, 1e-6), (1, 1e-5)]:
        for noise in [10.0, 50.0, 100.0]:
            offered = divisions(epsilon * NANO, round(delta * FEMTO))
            charge = Sums.of(cost_of(event("gaussian", noise=noise)), offered[Division.PURE].orders)
            arms = offered[division_of(offered, charge)]
            count, step = 0, charge
            while admits(arms, step):
                count, step = count + 1, step + charge
            exact = 0
            while delta_of_gaussian(epsilon, math.sqrt(exact + 1) / noise) <= delta:
                exact += 1
            assert math.floor(0.97 * exact) <= count <= exact
