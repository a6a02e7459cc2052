"""The figures of a history, from running sums, against accountants that saw every release."""

import itertools
import math

import mpmath
import pytest
from event_kit import event

from core.accounting.edgeworth import EdgeworthAccountant
from core.accounting.events import PrivacyEvent, moments_of, pure_epsilon_nano
from core.accounting.exact import epsilon_of_pure
from core.accounting.filters import Sums, cost_of, filter_arms
from core.accounting.history import FIXED_ONLY, HistoryLine, history_lines
from core.accounting.plans import Gaussian, Kind, Laplace, Result
from core.accounting.pld import certified_epsilon
from core.amounts import NANO
from core.errors import OutOfRange

DELTA = 1e-6
ORDERS = filter_arms(10 * NANO, 10**9).orders


def times(sums: Sums, count: int) -> Sums:
    numbers = {name: value * count for name, value in vars(sums).items() if name != "rho_nano"}
    return Sums(**numbers, rho_nano=tuple(count * rho for rho in sums.rho_nano))


def lines(*releases: tuple[PrivacyEvent, int], delta: float = DELTA) -> dict[str, HistoryLine]:
    """What is shown of a history of equal releases, kept as running sums."""
    sums, moments, pure = Sums.zero(ORDERS), (0.0,) * 10, set()
    for made, count in releases:
        sums += times(Sums.of(cost_of(made), ORDERS), count)
        one = moments_of(made)
        moments = tuple(old + count * new for old, new in zip(moments, one, strict=True)) if one and moments else None
        pure.add(pure_epsilon_nano(made))
    found = history_lines(
        sums=sums, orders=ORDERS, moments=moments, pure_epsilon_nano=pure.pop() if len(pure) == 1 else None, delta=delta
    )
    assert [line.accountant for line in found] == ["basic", "rdp", "edgeworth"]
    return {line.accountant: line for line in found}


def cumulants_by_sum(epsilon: float, *, laplace: bool) -> list[float]:
    """Cumulants 1 to 5 of Y, by high-precision sums and integrals of the definition."""
    e = mpmath.mpf(epsilon)
    if laplace:

        def moment(g):  # u uniform in log-density between two atoms
            inner = mpmath.quad(lambda u: g(e * (1 - 2 * u)) * e / 2 * mpmath.exp(-e * u), [0, 0.1, 1])
            return g(e) / 2 + inner + g(-e) * mpmath.exp(-e) / 2
    else:

        def moment(g):
            return (g(e) + g(-e) * mpmath.exp(-e)) / (1 + mpmath.exp(-e))

    mean = moment(lambda x: x)
    c2, c3, c4, c5 = (moment(lambda x, k=k: (x - mean) ** k) for k in (2, 3, 4, 5))
    return [float(value) for value in (mean, c2, c3, c4 - 3 * c2**2, c5 - 10 * c3 * c2)]


class TestCumulants:
    def test_they_are_those_of_the_definition(self) -> None:
        for epsilon in [1e-6, 1e-3, 0.1, 1, 5, 19.9, 20.1, 60]:
            for kind in ["pure", "exponential", "metric", "laplace", "permute_and_flip", "two_geometric"]:
                found = moments_of(event(kind, epsilon))
                with mpmath.workdps(60):
                    if kind == "two_geometric":
                        expected = [
                            2 * value for value in cumulants_by_sum(round(epsilon * NANO) / NANO / 2, laplace=False)
                        ]
                    else:
                        expected = cumulants_by_sum(epsilon, laplace=kind in ("laplace", "permute_and_flip"))

                scale = math.sqrt(expected[1])
                for power, (x, y, true) in enumerate(zip(found[:5], found[5:], expected, strict=True), start=1):
                    assert y == pytest.approx(true, rel=1e-9, abs=1e-11 * scale**power)
                    assert x == (-1) ** power * y

    def test_gaussian(self) -> None:
        assert moments_of(event("gaussian", noise=2.0)) == (-0.125, 0.25, 0, 0, 0, 0.125, 0.25, 0, 0, 0)

    def test_an_event_of_which_only_epsilon_and_delta_are_known_has_none(self) -> None:
        for made in [event("approximate", 1, delta_femto=1), event("pure", 1, delta_femto=1)]:
            assert moments_of(made) is None
            assert pure_epsilon_nano(made) is None

    def test_they_fit_a_double_at_every_epsilon(self) -> None:
        for epsilon in [1e-9, 800, 4e6]:
            for kind in ["pure", "laplace"]:
                found = moments_of(event(kind, epsilon))
                assert all(map(math.isfinite, found))


def test_nothing_released_costs_nothing() -> None:
    assert {line.epsilon.value for line in lines().values()} == {0.0}


def test_basic_sums_both_numbers() -> None:
    basic = lines((event("approximate", 0.5, delta_femto=10**8), 3), (event("pure", 1), 2))["basic"]
    assert (basic.epsilon.value, basic.epsilon.kind) == (3.5, Kind.BOUND)
    assert basic.delta == pytest.approx(3e-7)


def test_what_an_accountant_cannot_price_has_no_number() -> None:
    gaussian = lines((event("gaussian", noise=5.0), 2))
    assert gaussian["basic"].epsilon.kind is Kind.VACUOUS
    approximate = lines((event("approximate", 0.5, delta_femto=10**8), 3), (event("pure", 1), 2))
    assert approximate["rdp"].epsilon.kind is approximate["edgeworth"].epsilon.kind is Kind.VACUOUS


def test_edgeworth_is_that_of_the_accountant_that_saw_every_release() -> None:
    for plan in [
        [(Laplace(0.1), 300)],
        [(Laplace(0.1), 100), (Gaussian(5.0), 50)],
        [(Gaussian(5.0), 80)],
        [(Gaussian(5.0), 40), (Gaussian(8.0), 40)],
    ]:
        releases = [
            (
                event("laplace", made.epsilon)
                if isinstance(made, Laplace)
                else event("gaussian", noise=made.noise_multiplier),
                n,
            )
            for made, n in plan
        ]
        account = EdgeworthAccountant(order=3)
        for made, count in plan:
            account.compose(made, count)
        shown = lines(*releases)
        epsilon = shown["edgeworth"].epsilon

        assert epsilon.kind is Kind.ESTIMATE
        assert epsilon.note
        assert epsilon.value == pytest.approx(account.epsilon(DELTA).value, rel=1e-6)
        tight = certified_epsilon(tuple(plan), DELTA)
        assert epsilon.value == pytest.approx(tight, rel=1e-2)
        assert tight < shown["rdp"].epsilon.value < 1.12 * tight


def test_equal_pure_releases_are_exact_and_still_an_estimate() -> None:
    """Exact for a fixed plan; this history may have been chosen on the way."""
    shown = lines((event("pure", 0.1), 300))
    assert shown["edgeworth"].epsilon.value == epsilon_of_pure(DELTA, 0.1, 300)
    for accountant in ("rdp", "edgeworth"):
        assert shown[accountant].epsilon.kind is Kind.ESTIMATE
        assert FIXED_ONLY in shown[accountant].epsilon.note


def test_pure_releases_of_unequal_epsilon_are_estimated_near_the_truth() -> None:
    shown = lines((event("pure", 0.1), 200), (event("pure", 0.15), 100))["edgeworth"].epsilon
    low, high = epsilon_of_pure(DELTA, 0.1, 300), epsilon_of_pure(DELTA, 0.15, 300)
    assert shown.kind is Kind.ESTIMATE
    assert low < shown.value < high


def test_a_curve_without_one_root_gives_no_number() -> None:
    shown = lines((event("pure", 1), 3), (event("laplace", 3), 1))["edgeworth"].epsilon
    assert (shown.kind, shown.value) == (Kind.NO_UNIQUE_ROOT, None)
    constant = lines((event("pure", 2000), 1), (event("pure", 3000), 1))["edgeworth"].epsilon
    assert (constant.kind, constant.value) == (Kind.VACUOUS, None)


def test_no_history_is_too_long_or_too_strange() -> None:
    kinds = [event("pure", 0.001), event("laplace", 40), event("gaussian", noise=0.01), event("exponential", 1e-9)]
    for made, count in itertools.product(kinds, [1, 10**4, 10**9]):
        for line in lines((made, count), (event("laplace", 0.01), count)).values():
            assert isinstance(line.epsilon, Result)
            assert (line.epsilon.value is None) == (line.epsilon.kind in (Kind.VACUOUS, Kind.NO_UNIQUE_ROOT))
            assert line.epsilon.value is None or math.isfinite(line.epsilon.value)


def test_a_history_of_two_noisy_counts_is_exact_and_mixes_with_no_other() -> None:
    for count in [1, 10, 1000]:
        made = event("two_geometric", 0.3)
        alone = lines((made, count))["edgeworth"].epsilon
        assert (alone.value, "exact" in alone.note) == (epsilon_of_pure(DELTA, 0.15, 2 * count), True)
        assert "exact" not in lines((made, count), (event("pure", 0.3), count))["edgeworth"].epsilon.note


def test_a_delta_out_of_range_is_refused() -> None:
    for delta in [0.0, 1.0, math.nan]:
        with pytest.raises(OutOfRange):
            lines((event("pure", 1), 1), delta=delta)


def test_a_long_history_of_one_epsilon_is_expanded_and_stays_at_the_exact_binomial() -> None:
    for count, epsilon in [(10_001, 0.1), (1_000_000, 0.1), (100_000, 1.0)]:
        found = lines((event("exponential", epsilon), count))["edgeworth"].epsilon
        assert found.kind is Kind.ESTIMATE
        assert "order" in found.note
        assert found.value == pytest.approx(epsilon_of_pure(DELTA, epsilon, count), rel=2e-3)
