"""The journal names the route of each release, and what keys and routes have spent over time is read from sums."""

import pytest
from ledger_kit import MASTER_KEY, charge, claim, limits, released

from core.accounting.events import Unit
from core.amounts import NANO, Amount
from core.ledger.transitions import Ledger
from core.redis import names
from core.reports.series import DAY_S, HOUR_S, LOST, Dimension, SpendingTotals, Totals, series_name
from core.state.jobs import JobHold, JobStore

FIRST, SECOND = "a" * 16, "b" * 16
DAY_MS = DAY_S * 1000
START_MS = 40_000 * DAY_MS  # the fixture opens the tenant by the clock of Redis, which is earlier


@pytest.fixture
def acme(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(1000)))
    return ledger


def spend(go, ledger, key, route, epsilon=1, *, how="commit", subject=None, tenant="acme"):
    released(go, ledger, [charge(epsilon, subject=subject)], how=how, tenant=tenant, key_id=key, route=route)


def test_every_transition_of_a_release_and_of_a_job_names_its_key_and_route(go, acme, client) -> None:
    for how in ("commit", "expire", "cancel"):
        spend(go, acme, FIRST, "embed/sentdp", how=how)
    spend(go, acme, None, None)
    store = JobStore(client, gateway="this")
    hold = go(acme.reserve("acme", [charge(2)], claim=claim(), key_id=SECOND, route="jobs/synthesis"))
    terms = {"kind": "synthesis", "label": "law", "claim": "c1", "open_max": 8, "state": "s", "size": 1}
    go(store.create("acme", "c" * 32, hold=JobHold(hold.release_id, Amount(2 * NANO)), **terms))
    go(store.cancel("acme", "c" * 32))
    entries = go(acme.journal("acme")).entries
    named = [(FIRST, "embed/sentdp")] * 6 + [(None, None)] * 2 + [(SECOND, "jobs/synthesis")] * 2
    assert [(entry.key_id, entry.route) for entry in entries] == [(None, None), *named]
    assert go(acme.journal("acme", key_id=FIRST)).entries == entries[1:7]
    for wrong in ("/embed/sentdp", "Some Text", "x" * 65):
        with pytest.raises(ValueError, match="route"):
            go(acme.reserve("acme", [charge(1)], route=wrong))
    with pytest.raises(ValueError, match="hex"):
        go(acme.reserve("acme", [charge(1)], key_id="not a key"))


def test_spending_is_summed_by_key_and_route_in_hours_and_days(go, acme, client) -> None:
    now = [START_MS]
    timed = Ledger(client, MASTER_KEY, clock=lambda: now[0])
    spending = SpendingTotals(client, clock=lambda: now[0])
    for day in range(3):
        now[0] = START_MS + day * DAY_MS + 1
        spend(go, timed, FIRST, "embed/sentdp", 2)
        spend(go, timed, SECOND, "embed/vector", 1 + day)
        spend(go, timed, SECOND, "embed/vector", 9, how="cancel")
        go(spending.fold_all())
    spend(go, timed, None, None, 4, how="expire")
    assert go(spending.fold_all()) == 2
    assert go(spending.fold_all()) == 0

    def read(dimension, step_s, days):
        prefix = series_name(Unit.SENTENCE, dimension, "")
        page = go(
            spending.page(
                "acme",
                lambda name: name.removeprefix(prefix) if name.startswith(prefix) else None,
                step_s=step_s,
                first_ms=START_MS,
                stop_ms=START_MS + days * DAY_MS,
                offset=0,
                limit=10,
            )
        )
        assert page.is_last
        return {row.label: [point.committed_epsilon_nano // NANO for point in row.points] for row in page.rows}

    assert read(Dimension.KEY, DAY_S, 3) == {FIRST: [2, 4, 6], SECOND: [1, 3, 6], "-": [0, 0, 4]}
    assert read(Dimension.ROUTE, DAY_S, 3) == {"embed/sentdp": [2, 4, 6], "embed/vector": [1, 3, 6], "-": [0, 0, 4]}
    assert read(Dimension.KEY, HOUR_S, 1)[SECOND] == [1] * 24
    assert read(Dimension.OUTCOME, DAY_S, 3) == {LOST: [0, 0, 4]}
    assert go(spending.lost("acme"))[Unit.TOKEN] == Totals(4 * NANO, 0, 0, 0, 1)
    assert go(spending.lost("acme"))[Unit.RECORD] == Totals()

    now[0] += 20 * DAY_MS
    spend(go, timed, FIRST, "embed/sentdp", 1)
    go(spending.fold_all())
    points = go(
        client.call("ZRANGEBYSCORE", f"{names.sums_key('acme', 'spending')}:3600:sentence:key:{FIRST}", 0, "+inf")
    )
    assert len(points) == 2, "hours are kept for 14 days, and the last one before that"


def test_sums_of_subjects_are_those_of_the_quota(go, ledger, client) -> None:
    go(ledger.open_tenant("people", limits=limits(1000), subject_limits=limits(10)))
    for subject in ("one", "two"):
        spend(go, ledger, FIRST, "embed/sentdp", 3, subject=subject, tenant="people")
    spending = SpendingTotals(client)
    go(spending.fold_all())
    [found] = go(spending.totals("people", [series_name(Unit.SENTENCE, Dimension.KEY, FIRST)]))
    assert found == Totals(6 * NANO, 0, 0, 0, 2)
