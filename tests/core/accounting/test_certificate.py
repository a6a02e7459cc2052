"""Plan accounts: what is certified is a bound, and it admits more than a filter does."""

import math

import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from event_kit import event
from tiers import cells

from core.accounting.certificate import PLD_COUNT_MAX, PlanCertificate, certify, largest_count, plan_event
from core.accounting.events import PrivacyEvent, Unit
from core.accounting.exact import delta_of_gaussian, epsilon_of_pure
from core.accounting.filters import Sums, admits, cost_of, filter_arms
from core.accounting.plans import COUNT_MAX, Gaussian, Laplace, PlanAdjacency, Pure
from core.accounting.pld import certified_epsilon
from core.amounts import FEMTO, NANO
from core.errors import OutOfRange, UnsupportedEvent

MICRO = 10**9  # a delta of 1e-6, in femto


EVENTS = [
    pytest.param(event("pure", 0.1), id="pure"),
    pytest.param(event("exponential", 0.1), id="exponential"),
    pytest.param(event("permute_and_flip", 0.1), id="permute-and-flip"),
    pytest.param(event("two_geometric", 0.1), id="two-geometric"),
    pytest.param(event("gaussian", noise=5.0), id="gaussian"),
]


def test_the_dominating_pair_of_each_kind() -> None:
    for made, plan in [
        (event("pure", 0.5), Pure(0.5, PlanAdjacency.REPLACE_ONE)),
        (event("exponential", 0.5), Pure(0.5, PlanAdjacency.REPLACE_ONE)),
        (event("permute_and_flip", 0.5), Laplace(0.5, PlanAdjacency.REPLACE_ONE)),
        (event("laplace", 0.5), Laplace(0.5, PlanAdjacency.REPLACE_ONE)),
        (event("two_geometric", 0.5), Pure(0.25, PlanAdjacency.REPLACE_ONE)),
        (event("gaussian", noise=2.0), Gaussian(2.0, PlanAdjacency.REPLACE_ONE)),
    ]:
        assert plan_event(made) == plan


def test_an_event_without_a_dominating_pair_has_no_plan() -> None:
    for made in [
        event("approximate", 1, delta_femto=5),
        event("pure", 1, delta_femto=5),
        event("metric", 0.5, unit=Unit.VECTOR),
    ]:
        with pytest.raises(UnsupportedEvent):
            certify(made, count=1, delta_femto=MICRO)


@pytest.mark.parametrize("made", EVENTS)
def test_a_plan_admits_as_many_as_a_filter_or_more_and_a_filter_more_than_summing(made: PrivacyEvent) -> None:
    budget = 10 * NANO
    arms = filter_arms(budget, MICRO)
    sums = charge = Sums.of(cost_of(made), arms.orders)
    while admits(arms, sums + charge):
        sums += charge
    plan = largest_count(made, epsilon_nano=budget, delta_femto=MICRO)
    assert plan.count >= sums.count > 70
    if made.epsilon_nano:
        assert sums.count > 3 * (budget // made.epsilon_nano)


@pytest.mark.parametrize("made", EVENTS)
@pytest.mark.parametrize("epsilon_nano", cells([NANO, 30 * NANO], kind="grid"))
def test_the_largest_count_is_certified_and_one_more_is_not(made: PrivacyEvent, epsilon_nano: int) -> None:
    plan = largest_count(made, epsilon_nano=epsilon_nano, delta_femto=MICRO)
    assert plan.epsilon_nano <= epsilon_nano
    assert plan == certify(made, count=plan.count, delta_femto=MICRO)
    assert certify(made, count=plan.count + 1, delta_femto=MICRO).epsilon_nano > epsilon_nano


def test_a_certificate_is_above_what_is_known_exactly() -> None:
    for count in [1, 7, 100]:
        gaussian = certify(event("gaussian", noise=5.0), count=count, delta_femto=MICRO)
        assert delta_of_gaussian(gaussian.epsilon_nano / NANO, math.sqrt(count) / 5) <= 1e-6
        pure = certify(event("pure", 0.3), count=count, delta_femto=MICRO)
        assert pure.epsilon_nano >= min(epsilon_of_pure(1e-6, 0.3, count) * NANO, count * 0.3 * NANO) - 1
        laplace = certify(event("laplace", 0.3), count=count, delta_femto=MICRO)
        lowest = certified_epsilon(((Laplace(0.3), count),), 1e-6, interval=1e-4, optimistic=True)
        assert laplace.epsilon_nano >= lowest * NANO - 1


def test_the_exponential_mechanism_is_bounded_below_by_one_that_has_its_range() -> None:
    """Many releases of bounded range eta: the two-point mechanism with losses +-eta/2 is pure eta/2."""
    certified = certify(event("exponential", 0.2), count=1000, delta_femto=MICRO)
    assert certified.accountant == "rdp"
    assert certified.epsilon_nano >= epsilon_of_pure(1e-6, 0.1, 1000) * NANO
    assert certified.epsilon_nano < 0.5 * certify(event("pure", 0.2), count=1000, delta_femto=MICRO).epsilon_nano


def test_two_noisy_counts_are_certified_as_two_discrete_laplace_noises() -> None:
    """Against dp-accounting's discrete Laplace mechanism at half epsilon, twice as often; on a grid of its losses."""
    for epsilon, count in [(0.1, 1), (0.1, 685), (1.0, 30), (3.0, 100)]:
        certified = certify(event("two_geometric", epsilon), count=count, delta_femto=MICRO).epsilon_nano / NANO
        both = {}
        for pessimistic in (True, False):
            one = google.from_discrete_laplace_mechanism(
                epsilon / 2, value_discretization_interval=epsilon / 2000, pessimistic_estimate=pessimistic,
                use_connect_dots=pessimistic,
            )  # fmt: skip
            both[pessimistic] = one.self_compose(2 * count).get_epsilon_for_delta(1e-6)

        assert both[False] * (1 - 1e-9) <= certified <= both[True] * (1 + 1e-9) + 1 / NANO
        assert certify(event("pure", epsilon), count=count, delta_femto=MICRO).epsilon_nano / NANO >= certified


def test_without_a_delta_to_speak_of_a_plan_sums() -> None:
    for kind in ["pure", "exponential", "laplace", "two_geometric"]:
        for delta_femto in [0, 50]:
            plan = largest_count(event(kind, 0.3), epsilon_nano=NANO, delta_femto=delta_femto)
            assert plan == PlanCertificate(900_000_000, delta_femto, 3, "basic")


@pytest.mark.parametrize("epsilon", cells([1, 0.01, 50], kind="grid"))
@pytest.mark.parametrize("count", [1, 1000, PLD_COUNT_MAX])
def test_laplace_noise_is_certified_from_one_release_to_very_many(epsilon: float, count: int) -> None:
    certified = certify(event("laplace", epsilon), count=count, delta_femto=MICRO)
    mean = epsilon + math.expm1(-epsilon)  # of the loss of one release
    assert mean * count * 0.99 <= certified.epsilon_nano / NANO <= epsilon * count
    if count > 1:
        assert certified.epsilon_nano < 0.999 * epsilon * count * NANO


def test_a_plan_is_searched_up_to_the_largest_count() -> None:
    plan = largest_count(event("gaussian", noise=1e7), epsilon_nano=10 * NANO, delta_femto=MICRO)
    assert plan.count == COUNT_MAX
    many = largest_count(event("laplace", 0.002), epsilon_nano=10 * NANO, delta_femto=MICRO)
    assert many.accountant == "rdp"
    assert many.count > PLD_COUNT_MAX


def test_epsilons_outside_the_exact_composition_are_summed() -> None:
    for epsilon, limit in [(1e-8, 1e-5), (200, 1000)]:
        plan = largest_count(event("metric", epsilon), epsilon_nano=round(limit * NANO), delta_femto=MICRO)
        assert (plan.count, plan.accountant) == (round(limit / epsilon), "basic")


def test_what_cannot_be_planned_names_its_field() -> None:
    for made, epsilon_nano, delta_femto, field in [
        (event("pure", 2), NANO, MICRO, "epsilon"), (event("gaussian", noise=0.1), NANO, MICRO, "epsilon"),
        (event("gaussian", noise=5.0), NANO, 0, "delta"),
        (event("gaussian", noise=0.01), NANO, MICRO, "noise_multiplier"), (event("pure", 0.1), NANO, FEMTO, "delta"),
    ]:  # fmt: skip
        with pytest.raises(OutOfRange) as refusal:
            largest_count(made, epsilon_nano=epsilon_nano, delta_femto=delta_femto)
        assert refusal.value.field == field
