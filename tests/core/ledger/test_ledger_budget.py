"""Admission: what fits a limit is held, what does not is denied, and nothing in between."""

import asyncio

import orjson
import pytest
from ledger_kit import MASTER_KEY, RAW_TERMS, charge, claim, limits

from core.accounting.events import Unit
from core.amounts import EPSILON_MAX, NANO, Amount
from core.errors import (
    BudgetExhausted,
    InvalidInput,
    LedgerUnavailable,
    TenantExists,
    UnknownAccount,
    UnknownTenant,
)
from core.ledger.records import Debits, Limit


async def admitted(ledger, charges, attempts, tenant="acme"):
    """How many of `attempts` concurrent reserves were admitted; the others must have been denied."""
    results = await asyncio.gather(*(ledger.reserve(tenant, charges) for _ in range(attempts)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(result, BudgetExhausted) for result in refused), refused
    return attempts - len(refused)


def test_a_stampede_gets_exactly_the_budget(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(20)))
    assert go(admitted(ledger, [charge(1)], 64)) == 20
    state = go(ledger.account("acme", "acme/sentence"))
    assert (state.reserved, state.committed, state.remaining) == (Amount(20 * NANO), Amount(0), Amount(0))


def test_delta_is_a_limit_of_its_own(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(100, 3, basic_delta_femto=3)))
    done = go(ledger.reserve("acme", [charge(1, delta_femto=1)]))
    go(ledger.commit("acme", done.release_id))
    assert go(ledger.account("acme", "acme/sentence")).committed == Amount(NANO, 1)
    assert go(admitted(ledger, [charge(1, delta_femto=1)], 8)) == 2


def test_the_largest_amounts_stay_exact(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(EPSILON_MAX)))
    go(ledger.reserve("acme", [charge(EPSILON_MAX - 1e-9)]))
    state = go(ledger.account("acme", "acme/sentence"))
    assert state.remaining == Amount(1)
    with pytest.raises(BudgetExhausted) as denied:
        go(ledger.reserve("acme", [charge(2e-9)]))
    assert (denied.value.requested, denied.value.remaining) == (Amount(2), Amount(1))
    for documents in (2, 3, 100):
        with pytest.raises(InvalidInput):
            go(ledger.reserve("acme", [charge(EPSILON_MAX)] * documents))


@pytest.mark.parametrize("amount", ["1.5", "-1", "9007199254740992", "1e999", '"7"', "null", "[]"])
def test_a_script_takes_nothing_but_integers_that_stay_exact(go, acme, client, amount):
    orders = go(acme.account("acme", "acme/token")).orders
    debits = Debits("acme", [charge(unit=Unit.TOKEN)], MASTER_KEY)
    at = {(Unit.TOKEN, ""): orders}
    args = {"release": "0" * 32, "scope": "", "fingerprint": "", "mechanism": "x", **RAW_TERMS, **debits.args(at)}
    [[_, _, vector]] = orjson.loads(debits.amounts(at)[0])
    for position in range(len(vector)):
        numbers = ",".join([*map(str, vector[:position]), amount, *map(str, vector[position + 1 :])])
        blob = f'[["token","",[{numbers}]]]'.encode()
        with pytest.raises(LedgerUnavailable):
            go(client.run("reserve", key="{acme}:tenant", args=args, blob=blob))
    assert go(acme.account("acme", "acme/token")).reserved == Amount(0)


def test_a_sentence_debits_the_token_account_and_both_must_cover(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(10, token=2)))
    go(ledger.reserve("acme", [charge(1)]))
    go(ledger.reserve("acme", [charge(1, unit=Unit.TOKEN)]))
    with pytest.raises(BudgetExhausted) as denied:
        go(ledger.reserve("acme", [charge(1)]))
    assert denied.value.account == "acme/token"
    assert go(ledger.account("acme", "acme/sentence")).reserved == Amount(NANO)
    assert go(ledger.account("acme", "acme/vector")).reserved == Amount(0)


def test_reserve_tells_the_states_that_the_response_will_show(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(10)))
    first = go(ledger.reserve("acme", [charge(1)]))
    second = go(ledger.reserve("acme", [charge(2)]))
    shown = second.accounts[0]
    assert (shown.committed, shown.reserved) == (Amount(2 * NANO), Amount(1 * NANO))
    assert shown.remaining == Amount(7 * NANO)
    go(ledger.commit("acme", first.release_id))
    go(ledger.commit("acme", second.release_id))
    left = go(ledger.account("acme", "acme/sentence"))
    assert (left.committed, left.reserved) == (Amount(3 * NANO), Amount(0))


def test_an_unknown_account_is_never_a_fresh_budget(go, ledger, admin):
    with pytest.raises(UnknownTenant):
        go(ledger.reserve("acme", [charge(1)]))
    go(ledger.open_tenant("acme", limits=limits(5)))
    go(ledger.open_tenant("other", limits=limits(5)))
    go(admin.call("RENAME", "{acme}:account:token", "aside"))
    with pytest.raises(UnknownAccount):
        go(ledger.reserve("acme", [charge(1)]))
    go(admin.call("RENAME", "aside", "{acme}:account:token"))
    for wrong in ("other/sentence", "acme/paragraph", "acme", "acme/sentence/zz", "acme/sentence/" + "a" * 16):
        with pytest.raises(UnknownAccount):
            go(ledger.account("acme", wrong))


def test_open_refuses_a_second_tenant_of_the_name_and_bad_names(go, acme):
    with pytest.raises(TenantExists):
        go(acme.open_tenant("acme", limits=limits(50)))
    assert go(acme.account("acme", "acme/token")).limit == Amount(5 * NANO)
    for name in ("", "Acme", "a{b}", "a:b", "a/b", "-a", "a" * 64, "a\n", "ä"):
        with pytest.raises(InvalidInput):
            go(acme.open_tenant(name, limits=limits(5)))
    with pytest.raises(InvalidInput):
        go(acme.open_tenant("partial", limits={Unit.TOKEN: Limit(1)}))
    assert [tenant.name for tenant in go(acme.tenants())] == ["acme"]


def test_the_mode_decides_whether_a_subject_is_named(go, acme):
    go(acme.open_tenant("clinic", limits=limits(50), subject_limits=limits(2)))
    for charges in ([charge(1, subject="p1")], [charge(1), charge(1, subject="p1")]):
        with pytest.raises(InvalidInput, match="one account a unit"):
            go(acme.reserve("acme", charges))
    for charges in ([charge(1)], [charge(1, subject="p1"), charge(1)]):
        with pytest.raises(InvalidInput, match="protects subjects"):
            go(acme.reserve("clinic", charges))
        with pytest.raises(InvalidInput, match="protects subjects"):
            go(acme.estimate("clinic", charges))
    with pytest.raises(InvalidInput):
        go(acme.reserve("clinic", [charge(1, subject="")]))


def test_a_stampede_of_new_subjects_respects_both_limits(go, ledger):
    go(ledger.open_tenant("clinic", limits=limits(10), subject_limits=limits(3)))

    async def stampede():
        return await asyncio.gather(
            *(admitted(ledger, [charge(1, subject=f"p{number}")], 6, tenant="clinic") for number in range(5))
        )

    counts = go(stampede())
    assert sum(counts) == 10
    assert max(counts) <= 3
    with pytest.raises(BudgetExhausted) as denied:
        go(ledger.reserve("clinic", [charge(1, subject="p9")]))
    assert (denied.value.account, denied.value.remaining) == ("clinic/sentence", Amount(0))
    assert len([one for one in go(ledger.accounts("clinic")) if one.subject_hash]) <= 2 * 5, "a denial opens nothing"


def test_an_estimate_decides_as_reserve_would_and_writes_nothing(go, ledger, admin):
    go(ledger.open_tenant("clinic", limits=limits(3), subject_limits=limits(2)))
    before = go(admin.call("DBSIZE"))
    estimate = go(ledger.estimate("clinic", [charge(1, subject="p1"), charge(1, subject="p2")]))
    assert estimate.allowed
    assert [line.remaining_after for line in estimate.lines if line.account.subject_hash is None] == [
        Amount(NANO),
        Amount(NANO),
    ]
    estimate = go(ledger.estimate("clinic", [charge(2.5, subject="p1")]))
    assert not estimate.allowed
    assert [line.allowed for line in estimate.lines] == [False, False, True, True]
    assert go(admin.call("DBSIZE")) == before


def test_what_counts_has_no_time_to_live(go, acme, admin):
    done = go(acme.reserve("acme", [charge(1)], claim=claim("a")))
    go(acme.commit("acme", done.release_id, response=b"x"))
    held = go(acme.reserve("acme", [charge(1)], claim=claim("b")))
    mortal = {key for key in go(admin.call("KEYS", "*")) if go(admin.call("PTTL", key)) >= 0}
    release = f"{{acme}}:release:{done.release_id}".encode()
    response = f"{{acme}}:response:{done.release_id}".encode()
    kept = f"{{acme}}:claim:{claim('a').scope}".encode()
    assert mortal == {release, response, kept}
    assert go(admin.call("PTTL", kept)) > go(admin.call("PTTL", response)) > go(admin.call("PTTL", release))
    assert go(admin.call("PTTL", f"{{acme}}:release:{held.release_id}")) == -1
