"""Behaviour that only a seeded bug revealed: each of these bugs survived the other tests."""

import time
from dataclasses import replace

import orjson
import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, RAW_TERMS, charge, claim, ended, event, limits, released

from core.accounting.events import Guarantee, Unit
from core.accounting.filters import Arms, Sums, admits, cost_of
from core.amounts import FEMTO, NANO, Amount
from core.errors import BudgetExhausted, LedgerUnavailable
from core.ledger.records import Charge, Debits, Replay, Reserved
from core.ledger.transitions import Ledger


def spent(go, ledger):
    return go(ledger.account("acme", "acme/sentence")).committed


def closed(arms: Arms, arm: str) -> Arms:
    """The same account without one arm: `square` or the place of a Renyi order; the last is the Gaussian arm."""
    if arm == "square":
        return replace(arms, square_nano=-1)
    place = int(arm)
    return replace(arms, rho_nano=(*arms.rho_nano[:place], -1, *arms.rho_nano[place + 1 :]))


@pytest.mark.parametrize(
    ("arm", "kind", "limit", "delta_femto", "epsilon", "count"),
    [
        ("square", "pure", 0.01, FEMTO // 10**6, 5.4e-5, 939), ("0", "exponential", 3, FEMTO // 10**6, 0.1, 146),
        ("1", "exponential", 3, FEMTO // 10**9, 0.338783, 10), ("2", "exponential", 0.5, FEMTO // 10**6, 0.169981, 3),
        ("3", "exponential", 10, FEMTO // 10**4, 3.370423, 3), ("4", "gaussian", 3, FEMTO // 10**6, 0, 164),
    ],
)  # fmt: skip
def test_each_arm_admits_what_no_other_arm_does(go, ledger, arm, kind, limit, delta_femto, epsilon, count):
    go(ledger.open_tenant("acme", limits=limits(limit, delta_femto)))
    what = event(kind, epsilon, noise=20.0 if kind == "gaussian" else None)
    go(ledger.reserve("acme", [Charge(what)]))  # the first one decides how delta is divided
    if count > 1:
        go(ledger.reserve("acme", [Charge(what)] * (count - 1)))
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", [Charge(what)]))
    state = go(ledger.account("acme", "acme/sentence"))
    assert state.total.count == count
    assert not admits(closed(state.arms, arm), state.total), "another arm admits it as well"
    assert not admits(state.arms, state.total + Sums.of(cost_of(what), state.orders))


def test_a_release_debits_an_account_once(go, acme, client):
    """Two rows of one account would be checked one by one and the second would overwrite the first one's hold."""
    orders = go(acme.account("acme", "acme/token")).orders
    debits = Debits("acme", [charge(unit=Unit.TOKEN)], MASTER_KEY)
    at = {(Unit.TOKEN, ""): orders}
    args = debits.args(at)
    twice = {name: rows * 2 if name == "accounts" else rows for name, rows in args.items()}
    more = {"release": "0" * 32, "scope": "", "fingerprint": "", "mechanism": "x"}
    rows = orjson.dumps(orjson.loads(debits.amounts(at)[0]) * 2)
    with pytest.raises(LedgerUnavailable):
        go(client.run("reserve", key="{acme}:tenant", args=twice | more | RAW_TERMS, blob=rows))
    assert go(acme.account("acme", "acme/token")).reserved == Amount(0)


def test_a_denied_key_is_new_again_after_its_tombstone(go, acme, client):
    brief = Ledger(client, MASTER_KEY, response_retention_ms=0, tombstone_ttl_ms=50)
    big = go(acme.reserve("acme", [charge(5)]))
    with pytest.raises(BudgetExhausted):
        go(brief.reserve("acme", [charge(1)], claim=claim()))
    go(acme.cancel("acme", big.release_id, reason="queue-full"))
    time.sleep(0.1)
    assert isinstance(go(brief.reserve("acme", [charge(1)], claim=claim())), Reserved)


def test_a_repeated_commit_keeps_the_first_response(go, acme):
    hold = go(acme.reserve("acme", [charge(1)], claim=claim()))
    first = go(acme.commit("acme", hold.release_id, response=b"first"))
    assert go(acme.commit("acme", hold.release_id, response=b"second")) == first
    assert go(acme.reserve("acme", [charge(1)], claim=claim())) == Replay(hold.release_id, b"first")


@pytest.mark.parametrize("ending", ["commit", "cancel", "expire"])
def test_a_hold_whose_account_is_missing_stays(go, acme, admin, ending):
    hold = go(acme.reserve("acme", [charge(1)]))
    go(admin.call("RENAME", "{acme}:account:token", "aside"))
    with pytest.raises(LedgerUnavailable):
        ended(go, acme, hold, ending)
    go(admin.call("RENAME", "aside", "{acme}:account:token"))
    assert go(acme.account("acme", "acme/sentence")).reserved == Amount(NANO)
    ended(go, acme, hold, ending)
    assert spent(go, acme) == Amount(0 if ending == "cancel" else NANO)


def test_the_history_has_one_epsilon_only_while_all_releases_share_it(go, acme):
    epsilons_nano = []
    for epsilon in (0.5, 0.5, 1, 1, 0.5):
        released(go, acme, [charge(epsilon)])
        epsilons_nano.append(go(acme.account("acme", "acme/sentence")).history.pure_epsilon_nano)
    assert epsilons_nano == [NANO // 2, NANO // 2, None, None, None]


@pytest.mark.parametrize("unknown_at", [0, 1, 2])
def test_a_history_with_an_unknown_loss_has_no_moments(go, ledger, unknown_at):
    go(ledger.open_tenant("acme", limits=limits(5, 10, basic_delta_femto=10)))
    for number in range(3):
        what = charge(0.5).event
        if number == unknown_at:
            what = replace(what, kind="approximate", guarantee=Guarantee.APPROX_DP, delta_femto=1)
        released(go, ledger, [Charge(what)])
        history = go(ledger.account("acme", "acme/sentence")).history
        assert (history.moments is None) == (number >= unknown_at)


def test_an_account_that_is_missing_or_broken_is_reported_and_not_left_out(go, acme, admin):
    go(admin.call("RENAME", "{acme}:account:token", "aside"))
    with pytest.raises(LedgerUnavailable):
        go(acme.accounts("acme"))
    assert "the account acme/token is missing" in go(audit(acme)).tenants[0].faults
    go(admin.call("RENAME", "aside", "{acme}:account:token"))
    held = go(admin.call("HGET", "{acme}:account:token", "held"))
    go(admin.call("HSET", "{acme}:account:token", "held", b"\xc1"))
    with pytest.raises(LedgerUnavailable):
        go(acme.accounts("acme"))
    assert "the account acme/token cannot be read" in go(audit(acme)).tenants[0].faults
    go(admin.call("HSET", "{acme}:account:token", "held", held))
