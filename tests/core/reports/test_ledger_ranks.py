"""Subjects by what remains of their budgets: the order, the threshold, the pages, and that an update counts once."""

import pytest
from ledger_kit import charge, ended, limits, pages_of

from core.accounting.events import Unit
from core.amounts import FEMTO, cost_nano
from core.errors import InvalidInput, LedgerUnavailable, UnknownTenant
from core.redis import names
from core.reports import ranks
from core.reports.ranks import SubjectRanks


@pytest.fixture
def ranked(go, ledger, client):
    go(ledger.open_tenant("clinic", limits=limits(1_000_000), subject_limits=limits(20)))
    return SubjectRanks(client)


def spend(go, ledger, how="commit", **epsilons):
    hold = go(ledger.reserve("clinic", [charge(epsilon, subject=name) for name, epsilon in epsilons.items()]))
    if how is not None:
        ended(go, ledger, hold, how, "clinic")
    return hold


def pages(go, ranked, near=None, limit=200, unit=Unit.SENTENCE):
    below = None if near is None else cost_nano(near)
    found = pages_of(go, lambda cursor: ranked.page("clinic", unit, below_nano=below, cursor=cursor, limit=limit))
    return [[state.remaining.epsilon_nano / 1e9 for state in page.accounts] for page in found]


def test_the_least_remaining_comes_first_and_a_threshold_cuts(go, ledger, ranked) -> None:
    spend(go, ledger, a=3, b=17, c=9)
    spend(go, ledger, "expire", d=20)
    spend(go, ledger, b=1)
    spend(go, ledger, "cancel", e=19)
    assert not go(ranked.page("clinic", Unit.SENTENCE, limit=5)).up_to_date
    assert go(ranked.rank_all()) == go(ranked._position("clinic"))[1]
    assert go(ranked.page("clinic", Unit.SENTENCE, limit=5)).up_to_date
    assert pages(go, ranked) == [[0, 2, 11, 17]]
    assert pages(go, ranked, unit=Unit.TOKEN) == [[0, 2, 11, 17]]
    assert pages(go, ranked, unit=Unit.RECORD) == [[]]
    assert pages(go, ranked, near=2) == [[0]], "a release of 2 still fits the second"
    assert pages(go, ranked, near=2.000000001) == [[0, 2]]
    assert pages(go, ranked, near=100, limit=3) == [[0, 2, 11], [17]]
    assert go(ranked.rank_all()) == 0

    spend(go, ledger, c=11, d2=5)
    go(ranked.rank_all())
    assert pages(go, ranked) == [[0, 0, 2, 15, 17]]
    assert pages(go, ranked, limit=1) == [[0], [0], [2], [15], [17]]


def test_open_holds_are_in_the_figures_and_not_in_the_order(go, ledger, ranked) -> None:
    spend(go, ledger, a=3, b=4)
    hold = spend(go, ledger, None, a=10)
    go(ranked.rank_all())
    assert pages(go, ranked) == [[16, 7]]
    go(ledger.cancel("clinic", hold.release_id, reason="test"))
    assert pages(go, ranked) == [[16, 17]]


def test_accounts_with_arms_are_ranked_by_the_largest_pure_release(go, ledger, client) -> None:
    go(ledger.open_tenant("clinic", limits=limits(1000, FEMTO // 10**6), subject_limits=limits(10, FEMTO // 10**6)))
    ranked = SubjectRanks(client)
    for _ in range(3):
        spend(go, ledger, many=0.1, few=2)
    go(ranked.rank_all())
    [found] = pages(go, ranked)
    assert found == sorted(found)
    assert pages(go, ranked, near=found[0]) == [[]]
    assert pages(go, ranked, near=found[0] + 1e-9) == [found[:1]]


def test_an_update_is_cut_into_parts_and_a_late_one_is_rejected(go, ledger, ranked, client, monkeypatch) -> None:
    monkeypatch.setattr(ranks, "_ROWS_MAX", 3)
    for number in range(4):
        spend(go, ledger, **{f"p{number}": 1, f"q{number}": 2})
    spend(go, ledger, **{f"p{number}": 1 for number in range(4)})
    go(ranked.rank_all())
    assert pages(go, ranked, limit=3) == [[18, 18, 18], [18, 18, 18], [18, 18]]
    key = names.tenant_key("clinic")
    late = {"expected": 3, "ranked": 4, "rows": [["sentence", "0" * 64, "0" * 16]]}
    assert go(client.run("rank", key=key, args=late))[0] == {"outcome": "moved"}
    now = go(ranked._position("clinic"))[1]
    gone = {"expected": now, "ranked": now, "rows": [["sentence", "0" * 64, "0" * 16]]}
    assert go(client.run("rank", key=key, args=gone))[0] == {"outcome": "ranked"}
    assert [len(page) for page in pages(go, ranked)] == [8], "an account that does not exist has no rank"
    with pytest.raises(LedgerUnavailable):
        go(client.run("rank", key=key, args={"expected": now, "ranked": now + 1, "rows": []}))


def test_a_tenant_without_subjects_has_no_ranks(go, acme, ranked) -> None:
    go(ranked.rank_all())
    assert go(ranked.page("acme", Unit.SENTENCE, limit=5)).accounts == ()
    with pytest.raises(UnknownTenant):
        go(ranked.page("nobody", Unit.SENTENCE, limit=5))
    with pytest.raises(InvalidInput):
        go(ranked.page("acme", Unit.SENTENCE, limit=5, cursor="marker"))
