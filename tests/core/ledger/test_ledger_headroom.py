"""Headroom is exact: the promised number of releases is admitted, and the next one is refused."""

import pytest
from ledger_kit import charge, check_headroom, event, limits, promised

from core.accounting.events import PrivacyEvent, Unit
from core.amounts import FEMTO, cost_nano
from core.errors import BudgetExhausted, PlanMismatch, UnknownAccount
from core.ledger.records import Charge, Limit, Plan, plan_signature

DELTA = FEMTO // 10**6


@pytest.mark.parametrize(
    ("what", "epsilon", "delta_femto", "arm"),
    [
        (event("pure", 0.3), 10, 0, "basic"), (event("pure", 3), 10, DELTA, "basic"),
        (event("pure", 0.1), 10, DELTA, "renyi"), (event("exponential", 0.05), 3, DELTA, "renyi"),
        (event("two_geometric", 0.2), 10, DELTA, "renyi"), (event("pure", 5.4e-5), 0.01, DELTA, "squares"),
        (event("gaussian", 0, noise=20.0), 3, DELTA, "gaussian"),
        (event("approximate", 1, delta_femto=DELTA // 7), 100, DELTA, "basic"),
        (event("metric", 0.7, unit=Unit.VECTOR), 10, DELTA, "basic"), (event("pure", 11), 10, DELTA, None),
    ],
    ids=lambda value: value.kind if isinstance(value, PrivacyEvent) else str(value),
)  # fmt: skip
def test_the_promised_number_is_admitted_and_the_next_refused(go, ledger, what, epsilon, delta_femto, arm) -> None:
    go(ledger.open_tenant("acme", limits=limits(epsilon, delta_femto)))
    found = check_headroom(go, ledger, f"acme/{what.unit.value}", what)
    assert found.headroom.binding.arm == arm
    assert found.units == frozenset(what.debited_units)
    assert found.new_subject is None
    assert (found.headroom.binding.releases > 0) == (arm is not None)


def test_an_account_that_released_another_kind_has_another_arm_left(go, ledger) -> None:
    go(ledger.open_tenant("acme", limits=limits(10, DELTA)))
    go(ledger.reserve("acme", [Charge(event("pure", 0.5), times=3)]))
    gaussian = check_headroom(go, ledger, "acme/sentence", event("gaussian", 0, noise=30.0))
    assert gaussian.headroom.binding.arm == "renyi", "the first release gave delta to the Renyi arms"


def test_a_release_that_an_arm_cannot_price_leaves_the_others(go, ledger) -> None:
    go(ledger.open_tenant("acme", limits=limits(10, DELTA)))
    go(ledger.reserve("acme", [Charge(event("approximate", 1, delta_femto=DELTA // 100))]))
    assert check_headroom(go, ledger, "acme/sentence", event("pure", 0.4)).headroom.binding.arm == "basic"


def test_the_coarser_units_account_is_not_the_only_one_that_binds(go, ledger) -> None:
    go(ledger.open_tenant("acme", limits=limits(10, token=4)))
    found = check_headroom(go, ledger, "acme/sentence", event("pure", 1))
    assert [(fit.account, fit.releases) for fit in found.headroom.fits] == [("acme/sentence", 10), ("acme/token", 4)]
    assert found.headroom.binding.account == "acme/token"


def test_the_quota_of_all_subjects_binds_as_their_own_limit_does(go, ledger) -> None:
    go(ledger.open_tenant("acme", limits=limits(12), subject_limits=limits(5)))
    what = event("pure", 1)
    one = go(ledger.reserve("acme", [Charge(what, "one")])).accounts[0].account

    quota = promised(go, ledger, "acme/sentence", what)
    assert quota.headroom.binding.releases == 11
    assert quota.new_subject.binding.releases == 5
    assert check_headroom(go, ledger, one, what, "one").headroom.binding.releases == 4
    for subject in ("two", "three"):
        two = go(ledger.reserve("acme", [Charge(what, subject)])).accounts[0].account
        if subject == "two":
            go(ledger.reserve("acme", [Charge(what, subject, times=4)]))
    left = check_headroom(go, ledger, two, what, "three")
    assert left.headroom.binding.account == "acme/sentence"
    assert left.headroom.binding.releases == 1, "the quota of 12 has one left"
    assert promised(go, ledger, two, event("pure", 1, unit=Unit.RECORD)).headroom.binding.releases == 5


def test_a_plan_counts_its_own_releases_and_no_others(go, ledger) -> None:
    what = event("pure", 0.5)
    planned = Limit(cost_nano(1.5), DELTA, plan=Plan(plan_signature(what), 7))
    go(ledger.open_tenant("acme", limits=limits(10) | {Unit.SENTENCE: planned, Unit.TOKEN: planned}))
    assert check_headroom(go, ledger, "acme/sentence", what).headroom.binding.arm == "plan"
    other = promised(go, ledger, "acme/sentence", event("pure", 0.4)).headroom.binding
    assert (other.releases, other.arm) == (0, "plan-mismatch")
    with pytest.raises(PlanMismatch):
        go(ledger.reserve("acme", [Charge(event("pure", 0.4))]))


def test_an_estimate_says_how_often_the_release_fits(go, ledger) -> None:
    go(ledger.open_tenant("acme", limits=limits(12, DELTA), subject_limits=limits(5, DELTA)))
    charges = [charge(0.5, subject="one"), charge(0.5, subject="two"), charge(0.5, subject="one")]
    times = go(ledger.estimate("acme", charges)).times
    assert times > 5
    for _ in range(times):
        go(ledger.reserve("acme", charges))
    assert go(ledger.estimate("acme", charges)).times == 0
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", charges))


def test_what_has_no_account_has_no_headroom(go, acme) -> None:
    go(acme.open_tenant("other", limits=limits(5)))
    for account in ("other/sentence", "acme/sentence/0123456789abcdef", "acme/page"):
        with pytest.raises(UnknownAccount):
            promised(go, acme, account, event())
