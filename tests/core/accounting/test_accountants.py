"""One contract for every accountant, and each against what is known exactly."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tiers import cells

from core.accounting.additive import BasicAccountant, RdpAccountant
from core.accounting.edgeworth import EdgeworthAccountant
from core.accounting.exact import epsilon_of_pure
from core.accounting.fourier import FourierAccountant
from core.accounting.plans import (
    Accountant,
    Direction,
    Gaussian,
    Kind,
    Laplace,
    PlanAdjacency,
    PlanEvent,
    Pure,
    SubsampledGaussian,
)
from core.accounting.pld import COARSE, PldCertificate, certified_epsilon, grid_interval
from core.errors import NoUniqueRoot, OutOfRange, UnitMismatch, UnsupportedEvent

ACCOUNTANTS: dict[str, Callable[[], Accountant]] = {
    "basic": BasicAccountant,
    "rdp": RdpAccountant,
    "fourier": FourierAccountant,
    "pld": lambda: PldCertificate(interval=1e-2),
    **{f"edgeworth-{order}": (lambda order=order: EdgeworthAccountant(order=order)) for order in (1, 2, 3)},
}
STEP = SubsampledGaussian(0.01, 2.0)
EVENTS: tuple[PlanEvent, ...] = (Gaussian(2.0), STEP, Laplace(0.3), Pure(0.3))


@pytest.fixture(params=ACCOUNTANTS)
def fresh(request: pytest.FixtureRequest) -> Callable[[], Accountant]:
    return ACCOUNTANTS[request.param]


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def composed(fresh: Callable[[], Accountant], event: PlanEvent, count: int) -> Accountant:
    """A new account with these releases; skips where the accountant says that it cannot price them."""
    try:
        return fresh().compose(event, count)
    except UnsupportedEvent as refusal:
        pytest.skip(refusal.detail)


class TestContract:
    def test_an_empty_account_costs_nothing(self, fresh: Callable[[], Accountant]) -> None:
        assert fresh().epsilon(1e-5).value == 0.0

    @pytest.mark.parametrize("event", cells(EVENTS, fast=2, kind="grid"), ids=lambda event: type(event).__name__)
    def test_steps_at_once_equal_steps_one_by_one(self, fresh: Callable[[], Accountant], event: PlanEvent) -> None:
        at_once = composed(fresh, event, 20).epsilon(1e-5)
        one_by_one = fresh()
        for _ in range(4):
            one_by_one.compose(event, 5)
        assert one_by_one.epsilon(1e-5).kind is at_once.kind
        if at_once.value is not None:
            assert one_by_one.epsilon(1e-5).value == pytest.approx(at_once.value, rel=1e-6)

    @pytest.mark.parametrize("event", cells(EVENTS, fast=2, kind="grid"), ids=lambda event: type(event).__name__)
    def test_more_steps_and_less_delta_cost_more(self, fresh: Callable[[], Accountant], event: PlanEvent) -> None:
        values = [composed(fresh, event, count).epsilon(1e-5).value for count in (50, 100, 200)]
        values.append(fresh().compose(event, 200).epsilon(1e-7).value)
        present = [value for value in values if value is not None]
        assert present == sorted(present)

    def test_a_wrong_count_or_another_adjacency_changes_nothing(self, fresh: Callable[[], Accountant]) -> None:
        account = fresh().compose(Gaussian(2.0), 10)
        before = account.epsilon(1e-5)
        wrong: list[Any] = [0, -1, True, 1.5, 10**9 + 1]
        for count in wrong:
            with pytest.raises(OutOfRange):
                account.compose(Gaussian(2.0), count)
        with pytest.raises(UnitMismatch):
            account.compose(Gaussian(1.0, PlanAdjacency.REPLACE_ONE))
        assert account.epsilon(1e-5) == before

    def test_delta_has_a_range(self, fresh: Callable[[], Accountant]) -> None:
        for delta in (0.0, 1.0, -1.0, math.nan, 1e-20):
            with pytest.raises(OutOfRange):
                fresh().compose(STEP).epsilon(delta)

    @pytest.mark.slow("grid")
    def test_extreme_inputs_give_a_number_or_a_typed_answer(self, fresh: Callable[[], Accountant]) -> None:
        rates, noises, counts = (1e-6, 0.1, 1.0), (0.3, 50.0), (1, 1000, 10**7)
        for rate, noise, count, delta in itertools.product(rates, noises, counts, (1e-12, 0.1)):
            event = SubsampledGaussian(rate, noise)
            account = fresh()
            if isinstance(account, PldCertificate):
                if count > 1000 and rate < 1.0:
                    continue  # seconds to a minute each
                account = PldCertificate(interval=None if rate == 1.0 else grid_interval(((event, count),), COARSE))
            result = account.compose(event, count).epsilon(delta)
            if result.value is None:
                assert result.kind in (Kind.VACUOUS, Kind.NO_UNIQUE_ROOT)
            else:
                assert 0 <= result.value < 1e12


def test_a_plan_event_has_a_range() -> None:
    for event, bad in (
        (Gaussian, (0.0,)), (Gaussian, (math.nan,)), (SubsampledGaussian, (0.0, 1.0)),
        (SubsampledGaussian, (1.1, 1.0)), (Laplace, (-1.0,)), (Pure, (math.inf,)),
    ):  # fmt: skip
        with pytest.raises(OutOfRange):
            event(*bad)


# q, sigma, steps, delta, tight, RDP, order 1, 2, 3 in direction remove (None: no unique root)
AEA_TABLE = [
    (0.01, 0.8, 1000, 1e-5, 3.141, 3.696, 3.001, 3.164, 3.286),
    (0.01, 1.0, 100, 1e-5, 0.718, 1.214, 0.614, 0.6675, 0.715),
    (0.001, 0.6, 3000, 1e-6, 2.516, 3.432, 1.146, 1.254, None),
    (0.01, 2.0, 1000, 1e-5, 0.622, 0.686, 0.635, 0.624, 0.622),
    (2000 / 393000, 0.573, 3930, 1e-6, 9.603, 10.906, 7.992, 8.494, 8.921),
    (2000 / 105000, 0.739, 1050, 1e-6, 8.744, 9.715, 8.021, 8.420, 8.732),
    (2000 / 364000, 0.579, 3640, 1e-6, 9.614, 10.910, 8.044, 8.545, 8.968),
]


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta", "tight", "rdp", "one", "two", "three"), cells(AEA_TABLE, kind="grid")
)
def test_the_table_of_the_estimate(
    rate: float,
    noise: float,
    steps: int,
    delta: float,
    tight: float,
    rdp: float,
    one: float,
    two: float,
    three: float | None,
) -> None:
    event = SubsampledGaussian(rate, noise)

    assert PldCertificate(interval=1e-3).compose(event, steps).epsilon(delta).require() == pytest.approx(
        tight, abs=2e-3
    )
    assert RdpAccountant().compose(event, steps).epsilon(delta).require() == pytest.approx(rdp, abs=6e-4)
    assert tight - 5e-4 <= FourierAccountant().compose(event, steps).epsilon(delta).require() <= 1.002 * tight
    for order, expected in ((1, one), (2, two), (3, three)):
        account = EdgeworthAccountant(order=order, direction=Direction.REMOVE).compose(event, steps)
        result = account.epsilon(delta)
        if expected is None:
            assert result.kind is Kind.NO_UNIQUE_ROOT
            with pytest.raises(NoUniqueRoot):
                result.require()
        else:
            assert result.kind is Kind.ESTIMATE
            assert result.require() == pytest.approx(expected, abs=6e-4)


def test_the_other_direction_and_the_larger() -> None:
    for rate, noise, steps, added in [
        (2000 / 393000, 0.573, 3930, 8.418),
        (2000 / 105000, 0.739, 1050, 8.355),
        (2000 / 364000, 0.579, 3640, 8.473),
    ]:
        for direction in (Direction.ADD, Direction.MAX):
            account = EdgeworthAccountant(direction=direction).compose(SubsampledGaussian(rate, noise), steps)
            assert account.epsilon(1e-6).require() == pytest.approx(added, abs=6e-4)


def test_gaussian_is_exact_and_a_bound() -> None:
    for account in (EdgeworthAccountant(), PldCertificate()):
        result = account.compose(Gaussian(3.730631634944469)).epsilon(1e-5)
        assert result.kind is Kind.BOUND
        assert result.value == pytest.approx(1.0, abs=1e-7)  # Balle and Wang's multiplier for (1, 1e-5)


def test_equal_pure_releases_cost_the_exact_binomial() -> None:
    for eps0, count, delta in ((0.1, 1000, 1e-6), (1.0, 20, 1e-9), (0.01, 10**5, 1e-3)):
        result = EdgeworthAccountant().compose(Pure(eps0), count).epsilon(delta)
        exact = epsilon_of_pure(delta, eps0, count)  # itself against mpmath: test_exact_lines.py
        assert (result.kind, result.value) == (Kind.BOUND, exact)
        assert certified_epsilon(((Pure(eps0), count),), delta) == exact


def test_pure_events_do_not_mix_into_a_smooth_expansion() -> None:
    account = EdgeworthAccountant().compose(Pure(0.1), 5)
    before = account.epsilon(1e-5)
    for other in (Pure(0.2), STEP):
        with pytest.raises(UnsupportedEvent):
            account.compose(other)
    assert account.epsilon(1e-5) == before
    with pytest.raises(UnsupportedEvent):
        EdgeworthAccountant().compose(STEP).compose(Pure(0.1))


def test_unequal_releases_add_their_cumulants() -> None:
    parts = [(SubsampledGaussian(0.01, 1.5), 700), (SubsampledGaussian(0.02, 2.5), 300), (Gaussian(20.0), 5)]
    account = EdgeworthAccountant(order=3, direction=Direction.REMOVE)
    for event, count in parts:
        account.compose(event, count)
    tight = certified_epsilon(tuple(parts), 1e-5, interval=1e-3)
    assert account.epsilon(1e-5).value == pytest.approx(tight, rel=0.02)


def test_replace_one_sampling_is_certified_and_nothing_else() -> None:
    event = SubsampledGaussian(0.01, 1.0, PlanAdjacency.REPLACE_ONE)
    replaced = PldCertificate(PlanAdjacency.REPLACE_ONE, interval=1e-3).compose(event, 100).epsilon(1e-5).require()
    added = PldCertificate(interval=1e-3).compose(SubsampledGaussian(0.01, 1.0), 100).epsilon(1e-5).require()
    assert replaced > added
    for kind in (BasicAccountant, RdpAccountant, EdgeworthAccountant):
        with pytest.raises(UnsupportedEvent):
            kind(PlanAdjacency.REPLACE_ONE).compose(event)


def test_the_interval_is_vacuous_at_operational_deltas_and_an_estimate_where_it_is_not() -> None:
    event = SubsampledGaussian(0.01, 1.0)
    usual = EdgeworthAccountant().compose(event, 1000).epsilon(1e-5)
    assert usual.interval.kind is Kind.VACUOUS
    plan = ((SubsampledGaussian(0.5, 5.0), 3000),)
    wide = EdgeworthAccountant().compose(*plan[0]).epsilon(0.1)
    tight = certified_epsilon(plan, 0.1, interval=1e-2)
    assert wide.interval.kind is Kind.ESTIMATE  # its moments come from a quadrature without a proven error
    assert wide.interval.low <= tight <= wide.interval.high


def test_the_fourier_bound_of_gaussians_is_the_exact_one() -> None:
    """Full batches have a closed form (Balle and Wang 2018), and k equal ones are one of sigma / sqrt(k)."""
    exact = EdgeworthAccountant().compose(Gaussian(4.0), 16).epsilon(1e-6)
    value = FourierAccountant().compose(Gaussian(4.0), 16).epsilon(1e-6).require()
    assert exact.kind is Kind.BOUND
    assert exact.require() <= value <= 1.01 * exact.require()


def test_the_fourier_bound_sums_unequal_releases() -> None:
    mixed = FourierAccountant().compose(SubsampledGaussian(0.01, 1.0), 500).compose(SubsampledGaussian(0.02, 1.5), 300)
    plan = ((SubsampledGaussian(0.01, 1.0), 500), (SubsampledGaussian(0.02, 1.5), 300))
    optimistic = certified_epsilon(plan, 1e-6, interval=1e-3, optimistic=True)
    assert optimistic <= mixed.epsilon(1e-6).require() <= 1.02 * certified_epsilon(plan, 1e-6, interval=1e-3)
