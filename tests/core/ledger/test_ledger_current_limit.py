"""A current limit admits less than the guarantee, can be raised up to it, and changes nothing that is proven.

Each of these tests ends with an audit of its ledger, which finds no change of a limit.
"""

import pytest
from ledger_kit import charge, claim, event, limits

from core.accounting.events import Unit
from core.amounts import FEMTO, NANO, cost_nano
from core.errors import BudgetExhausted, InvalidInput, UnknownAccount, UnknownTenant
from core.ledger.records import Charge, Limit, Plan, plan_signature

DELTA = FEMTO // 10**6


def set_limit(go, ledger, epsilon, account="acme/sentence"):
    return go(ledger.set_current_limit("acme", account, round(epsilon * NANO)))


def test_what_is_left_refers_to_the_current_limit(go, ledger) -> None:
    go(ledger.open_tenant("acme", limits=limits(9)))
    state = set_limit(go, ledger, 4.5)
    assert (state.limit.epsilon_nano, state.remaining.epsilon_nano) == (9 * NANO, cost_nano(4.5))
    assert [arm.limit for arm in state.arm_states() if arm.name == "basic"] == [4.5]
    go(ledger.reserve("acme", [charge(4.5)]))
    with pytest.raises(BudgetExhausted) as refused:
        go(ledger.reserve("acme", [charge(0.001)]))
    assert (refused.value.account, refused.value.remaining.epsilon_nano) == ("acme/sentence", 0)
    assert go(ledger.account("acme", "acme/sentence")).used_share == 1.0


def test_a_current_limit_of_the_quota_binds_every_subject(go, ledger) -> None:
    go(ledger.open_tenant("acme", limits=limits(12), subject_limits=limits(5)))
    set_limit(go, ledger, 6)
    go(ledger.reserve("acme", [charge(5, subject="one")]))
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", [charge(2, subject="two")]))
    two = go(ledger.reserve("acme", [charge(1, subject="two")])).accounts[0].account
    with pytest.raises(InvalidInput):
        set_limit(go, ledger, 1, two)


def test_a_denied_key_stays_denied_after_the_limit_was_raised_and_another_is_admitted(go, ledger) -> None:
    go(ledger.open_tenant("acme", limits=limits(9)))
    set_limit(go, ledger, 1)
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", [charge(2)], claim=claim("first")))
    set_limit(go, ledger, 9)
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", [charge(2)], claim=claim("first")))
    go(ledger.reserve("acme", [charge(2)], claim=claim("second")))


def test_what_cannot_be_set_is_refused(go, ledger) -> None:
    what = event("pure", 0.5)
    planned = Limit(cost_nano(1.5), DELTA, plan=Plan(plan_signature(what), 7))
    go(ledger.open_tenant("acme", limits=limits(10) | {Unit.TOKEN: planned}))
    for epsilon, account in ((10.1, "acme/sentence"), (-1, "acme/sentence"), (1, "acme/token")):
        with pytest.raises(InvalidInput):
            set_limit(go, ledger, epsilon, account)
    with pytest.raises(UnknownAccount):
        set_limit(go, ledger, 1, "acme/page")
    with pytest.raises(UnknownTenant):
        go(ledger.set_current_limit("other", "other/sentence", NANO))
    assert go(ledger.account("acme", "acme/sentence")).current is None
    go(ledger.reserve("acme", [Charge(event("pure", 10, unit=Unit.RECORD))]))
