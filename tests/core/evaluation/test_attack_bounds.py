"""What an attacker can do at most: closed forms, `riskcal` beside it, and attackers who reach the bounds."""

import math
from itertools import pairwise

import pytest
import riskcal.analysis
from dp_accounting.pld import privacy_loss_distribution as google
from scipy.stats import binom

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import FEMTO, NANO
from core.errors import UnsupportedEvent
from core.evaluation.attack_bounds import COUNT_MAX, FALSE_POSITIVE_RATE, PRIORS, AttackBounds, attack_bounds


def event(kind: str, epsilon: float = 0.0, delta: float = 0.0, noise: float | None = None) -> PrivacyEvent:
    return PrivacyEvent(
        mechanism="x",
        kind=kind,
        unit=Unit.RECORD,
        adjacency=Adjacency.REPLACE_ONE,
        guarantee=Guarantee.PURE_DP,
        epsilon_nano=round(epsilon * NANO),
        delta_femto=round(delta * FEMTO),
        noise_multiplier=noise,
    )


def numbers(bounds: AttackBounds) -> list[float]:
    return [bounds.advantage, bounds.true_positive_rate, *(guess.success for guess in bounds.guesses)]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
def test_randomised_response_reaches_the_bounds_of_one_release(epsilon: float) -> None:
    bounds = attack_bounds(event("pure", epsilon))
    assert bounds.epsilon == pytest.approx(epsilon)
    assert bounds.advantage == pytest.approx(math.tanh(epsilon / 2))
    for guess in bounds.guesses:  # a response among 1 / prior values is right with this probability
        values = round(1 / guess.prior)
        assert guess.success == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + values - 1))
    assert bounds.true_positive_rate == pytest.approx(
        min(FALSE_POSITIVE_RATE * math.exp(epsilon), 1 - (1 - FALSE_POSITIVE_RATE) * math.exp(-epsilon))
    )


@pytest.mark.parametrize(("kind", "epsilon", "count"), [("pure", 0.5, 10), ("exponential", 1.0, 5)])
def test_the_most_powerful_test_of_several_responses_reaches_the_bound(kind: str, epsilon: float, count: int) -> None:
    odds = 1 / (1 + math.exp(-epsilon))
    left, found = FALSE_POSITIVE_RATE, 0.0
    for kept in range(count, -1, -1):  # from the outcome that speaks most for the value
        false, true = binom.pmf(kept, count, 1 - odds), binom.pmf(kept, count, odds)
        share = min(1.0, left / false)
        left, found = left - share * false, found + share * true
    bounds = attack_bounds(event(kind, epsilon), count=count)
    assert bounds.true_positive_rate == pytest.approx(found)
    assert bounds.advantage == pytest.approx(
        binom.sf(count // 2, count, odds) - binom.sf(count // 2, count, 1 - odds), rel=1e-6
    )


def test_riskcal_finds_the_same_for_laplace_noise() -> None:
    bounds = attack_bounds(event("laplace", 0.5), count=10)
    theirs = google.from_laplace_mechanism(2.0).self_compose(10)
    assert bounds.advantage == pytest.approx(riskcal.analysis.get_advantage_from_pld(theirs), abs=2e-3)
    found = 1 - riskcal.analysis.get_beta_from_pld(theirs, alpha=FALSE_POSITIVE_RATE)
    assert bounds.true_positive_rate == pytest.approx(found, abs=2e-3)


def test_gaussian_releases_add_up_as_one_of_less_noise() -> None:
    several, one = attack_bounds(event("gaussian", noise=2.0), count=4), attack_bounds(event("gaussian", noise=1.0))
    assert numbers(several) == pytest.approx(numbers(one))
    assert one.advantage == pytest.approx(riskcal.analysis.get_advantage_from_gdp(1.0))
    assert one.epsilon is None


def test_an_event_with_a_delta_alone_is_summed() -> None:
    bounds = attack_bounds(event("approximate", 1.0, 1e-3), count=3)
    assert bounds.advantage == pytest.approx(riskcal.analysis.get_advantage_from_adp(3.0, 3e-3), rel=1e-6)
    assert all(
        guess.success > pure.success
        for guess, pure in zip(bounds.guesses, attack_bounds(event("pure", 3.0)).guesses, strict=True)
    )


@pytest.mark.parametrize("kind", ["pure", "two_geometric", "laplace", "permute_and_flip"])
def test_more_releases_and_larger_ones_never_say_less_and_all_stay_probabilities(kind: str) -> None:
    found = [
        numbers(attack_bounds(event(kind, epsilon), count=count))
        for epsilon, count in ((0.01, 1), (0.01, 100), (1, 100), (25, 100))
    ]
    assert all(x <= y + 1e-9 for less, more in pairwise(found) for x, y in zip(less, more, strict=True))
    assert all(0 <= number <= 1 for row in found for number in row)
    assert [guess.prior for guess in attack_bounds(event(kind, 1)).guesses] == list(PRIORS)


def test_what_has_no_bound_is_refused() -> None:
    metric = PrivacyEvent("x", "metric", Unit.VECTOR, Adjacency.METRIC, Guarantee.METRIC_DP, NANO)
    with pytest.raises(UnsupportedEvent):
        attack_bounds(metric)
    for count in (0, COUNT_MAX + 1):
        with pytest.raises(ValueError, match="number of releases"):
            attack_bounds(event("pure", 1.0), count=count)
