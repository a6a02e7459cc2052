"""An event whose pure epsilon is below its bounded range: no order is charged less than the worst pair of weights."""

from __future__ import annotations

import itertools
import math

import pytest

from core.accounting.certificate import certify
from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.accounting.filters import FILTER_ORDERS, cost_of
from core.amounts import NANO
from core.ledger.records import plan_signature
from core.mechanisms.weight_range import draw_epsilon_nano


def event(epsilon_nano: int, bounded_range_nano: int | None, kind: str = "exponential") -> PrivacyEvent:
    return PrivacyEvent(
        "draw",
        kind,
        Unit.TOKEN,
        Adjacency.REPLACE_ONE,
        Guarantee.PURE_DP,
        epsilon_nano,
        bounded_range_nano=bounded_range_nano,
    )


def worst_divergence(range_: float, candidates: int, alpha: float) -> float:
    """The largest Renyi divergence over all pairs of score vectors with entries 0 and R."""
    worst = 0.0
    corners = list(itertools.product((0.0, range_), repeat=candidates))
    for one, two in itertools.product(corners, repeat=2):
        p, q = ([math.exp(s) / sum(map(math.exp, scored)) for s in scored] for scored in (one, two))
        total = sum(a**alpha * b ** (1 - alpha) for a, b in zip(p, q, strict=True))
        worst = max(worst, math.log(total) / (alpha - 1))
    return worst


@pytest.mark.parametrize("candidates", [2, 3, 5])
@pytest.mark.parametrize("range_", [0.05, 1.0, 4.0])
def test_no_order_is_charged_less_than_the_worst_pair(range_: float, candidates: int) -> None:
    range_nano = round(range_ * NANO)
    priced = event(draw_epsilon_nano(range_nano, candidates=candidates), 2 * range_nano)
    rho = cost_of(priced).rho_nano
    assert rho is not None
    for order, nano in zip(FILTER_ORDERS, rho, strict=True):
        if float(order) <= 16:
            assert worst_divergence(range_, candidates, float(order)) <= nano / NANO


def test_the_lesser_of_both_bounds_is_charged() -> None:
    epsilon_nano = draw_epsilon_nano(10 * NANO, candidates=20_000)
    both, pure, ranged = (
        cost_of(each).rho_nano or ()
        for each in (event(epsilon_nano, 20 * NANO), event(epsilon_nano, None, "pure"), event(20 * NANO, None))
    )
    assert both == tuple(map(min, pure, ranged))
    assert both != pure
    assert both != ranged


def test_a_certificate_uses_the_same_bounds() -> None:
    epsilon_nano = draw_epsilon_nano(NANO // 10, candidates=20_000)
    found = certify(event(epsilon_nano, NANO // 5), count=2_000, delta_femto=10**9)
    assert found.epsilon_nano < certify(event(epsilon_nano, None, "pure"), count=2_000, delta_femto=10**9).epsilon_nano


def test_a_range_is_of_one_kind_alone_and_not_below_its_epsilon() -> None:
    for wrong in ((2, 1, "exponential"), (1, 2, "pure")):
        with pytest.raises(ValueError, match="bounded range"):
            event(*wrong)
    assert plan_signature(event(1, 2)) != plan_signature(event(1, 3))
