"""What a filter or plan account admits, against the rule of `core.accounting.filters`."""

from dataclasses import replace

import pytest
from ledger_kit import event, limits, released

from core.accounting.events import Unit, moments_of
from core.accounting.filters import Sums, divisions
from core.amounts import FEMTO, NANO
from core.errors import BudgetExhausted, InvalidInput, PlanMismatch
from core.ledger.records import Charge, Limit, Plan, plan_signature

MICRO_DELTA = FEMTO // 10**6


def admitted(go, ledger, wanted, most):
    for count in range(most):
        try:
            released(go, ledger, [Charge(wanted)])
        except BudgetExhausted:
            return count
    return most


def test_a_delta_buys_more_small_releases_than_their_sum(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(2, MICRO_DELTA)))
    wanted = event("exponential", 0.05)
    count = admitted(go, ledger, wanted, 500)
    assert count > 2 * 40  # twice what basic composition admits
    state = go(ledger.account("acme", "acme/sentence"))
    assert state.committed.epsilon_nano == count * 50_000_000 > state.limit.epsilon_nano
    assert 0 <= state.remaining.epsilon_nano < 50_000_000
    # what it says remains is admitted, and a nano more is not
    rest = state.remaining.epsilon_nano
    with pytest.raises(BudgetExhausted) as denied:
        go(ledger.reserve("acme", [Charge(event("pure", (rest + 1) / NANO))]))
    assert denied.value.remaining == state.remaining
    go(ledger.reserve("acme", [Charge(event("pure", rest / NANO))]))


def test_a_plan_counts_its_releases_and_admits_nothing_else(go, ledger):
    planned = event("laplace", 0.5)
    plan = Plan(plan_signature(planned), 7)
    go(ledger.open_tenant("acme", limits=limits(100) | {Unit.SENTENCE: Limit(NANO, MICRO_DELTA, plan=plan)}))
    hold = go(ledger.reserve("acme", [Charge(planned)] * 3))
    for other in (event("laplace", 0.4), event("pure", 0.5)):
        for charges in ([Charge(other)], [Charge(planned), Charge(other)]):
            with pytest.raises(PlanMismatch) as refused:
                go(ledger.reserve("acme", charges))
            assert refused.value.account == "acme/sentence"
            with pytest.raises(PlanMismatch):
                go(ledger.estimate("acme", charges))
    assert admitted(go, ledger, planned, 20) == 4
    go(ledger.cancel("acme", hold.release_id, reason="test"))
    state = go(ledger.account("acme", "acme/sentence"))
    assert state.plan == plan
    assert (state.total.count, state.remaining.epsilon_nano) == (4, 3 * NANO // 2)
    assert admitted(go, ledger, planned, 20) == 3


def test_a_plan_for_the_worst_noise_admits_any_noise_of_its_mechanism_and_no_other_way_round(go, ledger):
    """Accounts that were opened before counts had a price of their own go on."""
    worst = event("pure", 0.5)
    counts = replace(event("two_geometric", 0.5), mechanism=worst.mechanism)
    noisy = replace(event("gaussian", 0.5, noise=5.0, delta_femto=1), mechanism=worst.mechanism)
    for planned, good, bad in ((worst, (counts, worst), noisy), (counts, (counts,), worst)):
        tenant = f"plan-{planned.kind.replace('_', '-')}"
        plan = Plan(plan_signature(planned), 3)
        go(ledger.open_tenant(tenant, limits=limits(100) | {Unit.SENTENCE: Limit(NANO, MICRO_DELTA, plan=plan)}))
        go(ledger.reserve(tenant, [Charge(made) for made in good]))
        for charges in ([Charge(bad)], [Charge(counts), Charge(bad)]):
            with pytest.raises(PlanMismatch):
                go(ledger.reserve(tenant, charges))
        go(ledger.reserve(tenant, [Charge(counts)] * (3 - len(good))))
        with pytest.raises(BudgetExhausted):
            go(ledger.reserve(tenant, [Charge(counts)]))


def test_each_subject_has_a_plan_of_its_own(go, ledger):
    planned = event("laplace", 0.5)
    subject = Limit(NANO, MICRO_DELTA, plan=Plan(plan_signature(planned), 2))
    go(ledger.open_tenant("clinic", limits=limits(2), subject_limits=limits(2) | {Unit.SENTENCE: subject}))
    for person in ("p1", "p2"):
        go(ledger.reserve("clinic", [Charge(planned, person)] * 2))
        with pytest.raises(BudgetExhausted) as denied:
            go(ledger.reserve("clinic", [Charge(planned, person)]))
        assert denied.value.account.startswith("clinic/sentence/")
    with pytest.raises(BudgetExhausted) as denied:  # the quota is a sum
        go(ledger.reserve("clinic", [Charge(planned, "p3")]))
    assert denied.value.account == "clinic/sentence"


def test_a_sum_that_no_counter_can_hold_closes_its_arm_and_no_other(go, ledger):
    """The squares of epsilon 2,000 pass 2^53 nano at the third release; basic composition goes on to its limit."""
    go(ledger.open_tenant("acme", limits=limits(20_000, MICRO_DELTA)))
    holds = [go(ledger.reserve("acme", [Charge(event("pure", 2000))])) for _ in range(10)]
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", [Charge(event("pure", 2000))]))
    state = go(ledger.account("acme", "acme/sentence"))
    assert (state.total.epsilon_nano, state.total.no_square) == (20_000 * NANO, 8)
    assert state.within_limit
    for hold in holds:
        go(ledger.cancel("acme", hold.release_id, reason="test"))
    state = go(ledger.account("acme", "acme/sentence"))
    assert state.total == Sums.zero(state.orders)


def test_the_history_sums_what_was_spent_and_nothing_that_was_refunded(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(20, MICRO_DELTA)))
    first, second = event("exponential", 0.5), event("permute_and_flip", 0.25)
    for wanted, end in ((first, "commit"), (second, "cancel"), (first, "expire")):
        released(go, ledger, [Charge(wanted)] * 2, how=end)
    history = go(ledger.account("acme", "acme/token")).history
    assert history.pure_epsilon_nano == NANO // 2
    assert history.moments == pytest.approx([4 * value for value in moments_of(first)])
    released(go, ledger, [Charge(second)])
    history = go(ledger.account("acme", "acme/token")).history
    assert history.pure_epsilon_nano is None
    assert history.moments == pytest.approx(
        [4 * a + b for a, b in zip(moments_of(first), moments_of(second), strict=True)]
    )


@pytest.mark.parametrize(
    ("wanted", "limit"),
    [
        (event("pure", 0.5), Limit(100 * NANO, MICRO_DELTA)),
        (event("gaussian", 0, noise=20.0), Limit(100 * NANO, MICRO_DELTA)),
        (event("laplace", 0.5), Limit(NANO, MICRO_DELTA, plan=Plan(plan_signature(event("laplace", 0.5)), 100))),
    ],
)
def test_a_charge_for_many_releases_counts_as_that_many_charges(go, ledger, wanted, limit):
    for tenant in ("once", "many"):
        go(ledger.open_tenant(tenant, limits=limits(100, MICRO_DELTA) | {Unit.SENTENCE: limit}))
    estimate = go(ledger.estimate("once", [Charge(wanted, times=30)]))
    together = go(ledger.reserve("once", [Charge(wanted, times=29), Charge(wanted)]))
    separate = go(ledger.reserve("many", [Charge(wanted)] * 30))

    states = [go(ledger.account(tenant, f"{tenant}/sentence")) for tenant in ("once", "many")]
    assert states[0].held_vector == states[1].held_vector
    assert states[0].held_vector[0] == 30
    assert estimate.lines[0].remaining_after == states[0].remaining

    go(ledger.commit("once", together.release_id))
    go(ledger.commit("many", separate.release_id))
    states = [go(ledger.account(tenant, f"{tenant}/sentence")) for tenant in ("once", "many")]
    assert states[0].committed_vector == states[1].committed_vector
    assert states[0].history == states[1].history
    journals = [go(ledger.journal(tenant, f"{tenant}/sentence", limit=100)).entries for tenant in ("once", "many")]
    assert [entry.amounts[0].vector for entry in journals[0]] == [entry.amounts[0].vector for entry in journals[1]]
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("once", [Charge(wanted, times=200_000)]))


def test_a_million_releases_in_one_charge_are_exact_and_too_many_are_refused(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(4_000_000)))
    wanted = event("pure", 1.000000001)
    go(ledger.reserve("acme", [Charge(wanted, times=10**6)]))
    held = go(ledger.account("acme", "acme/token")).held_vector
    assert held[:2] == (10**6, 10**6 * (NANO + 1))
    noise = event("gaussian", 0, noise=1e6)
    for too_many in ([Charge(wanted, times=4 * 10**6)], [Charge(noise, times=2**52)] * 2):
        with pytest.raises(InvalidInput):
            go(ledger.reserve("acme", too_many))
    with pytest.raises(ValueError, match="at least one"):
        Charge(wanted, times=0)


def test_the_first_release_decides_how_delta_is_divided(go, ledger):
    """By default an account admits every single release that its limit covers, and then what is left of it."""
    half = event("approximate", 0.5, delta_femto=MICRO_DELTA // 2)
    for tenant in ("again", "pure"):
        go(ledger.open_tenant(tenant, limits=limits(1, MICRO_DELTA)))
    released(go, ledger, [Charge(event("gaussian", 0, noise=100.0))], how="cancel", tenant="again")
    for _ in range(2):  # nothing was shown, so the next one is the first
        go(ledger.reserve("again", [Charge(half)]))
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("again", [Charge(half)]))

    go(ledger.reserve("pure", [Charge(event("pure", 0.1))]))
    with pytest.raises(BudgetExhausted) as refused:
        go(ledger.reserve("pure", [Charge(half)]))
    basic = refused.value.arms[0]
    assert (basic.name, basic.requested, basic.limit_delta) == ("basic", 0.5, pytest.approx(5e-8))
    assert all(arm.requested is None for arm in refused.value.arms[1:])
    assert "Only the basic arm" in refused.value.detail


def test_a_small_first_release_with_a_delta_of_its_own_keeps_all_of_delta(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(1, MICRO_DELTA)))
    for parts in (1, 99):
        go(ledger.reserve("acme", [Charge(event("approximate", 0.1, delta_femto=parts * MICRO_DELTA // 100))]))
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", [Charge(event("approximate", 0.1, delta_femto=1))]))


def test_a_gaussian_release_that_takes_the_whole_limit_is_admitted_once(go, ledger):
    """No share of delta of the Gaussian arm covers it; its own (epsilon, delta) is the limit."""
    noise = 4.2247  # (1, 1e-6)-DP
    known = event("gaussian", 1, noise=noise, delta_femto=MICRO_DELTA)
    go(ledger.open_tenant("acme", limits=limits(1, MICRO_DELTA)))
    go(ledger.reserve("acme", [Charge(known)]))
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", [Charge(event("gaussian", 0, noise=1000.0))]))


def test_a_subject_divides_delta_for_itself(go, ledger):
    noisy, whole = event("gaussian", 0, noise=20.0), event("approximate", 1, delta_femto=MICRO_DELTA)
    go(ledger.open_tenant("clinic", limits=limits(100, FEMTO // 10), subject_limits=limits(1, MICRO_DELTA)))
    for person, wanted in (("p1", noisy), ("p2", event("pure", 0.5)), ("p3", noisy)):
        go(ledger.reserve("clinic", [Charge(wanted, person)]))
    arms = {
        state.account: state.arms
        for state in go(ledger.accounts("clinic"))
        if state.unit is Unit.SENTENCE and state.subject_hash
    }
    offered = divisions(NANO, MICRO_DELTA)
    assert sorted(list(offered.values()).index(found) for found in arms.values()) == [0, 1, 1]
    go(ledger.open_tenant("other", limits=limits(100, FEMTO // 10), subject_limits=limits(1, MICRO_DELTA)))
    go(ledger.reserve("other", [Charge(whole, "p1")]))


def test_a_metric_account_has_no_plan(go, ledger):
    plan = Plan(plan_signature(event("metric", 0.05, unit=Unit.VECTOR)), 1000)
    with pytest.raises(InvalidInput):
        go(ledger.open_tenant("planned", limits=limits(10) | {Unit.VECTOR: Limit(NANO, MICRO_DELTA, plan=plan)}))
