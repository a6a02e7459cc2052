"""Spending over time is what the journal says, however it was folded; and pages of accounts are complete."""

import asyncio
import itertools
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_kit import LATE, LOST_REQUEST, MASTER_KEY, charge, ended, limits, pages_of

from core.accounting.events import Unit
from core.errors import InvalidInput, LedgerUnavailable, UnknownTenant
from core.ledger.transitions import Ledger
from core.redis.client import LedgerClient, connect
from core.reports.series import RETENTION_S, SERIES, LedgerSeries, SeriesQuery, SubjectClass, Totals

START_MS = 1_700_000_000_000
STEPS = tuple(RETENTION_S)
DAY_MS = 86_400_000
ENDS = ("commit", "cancel", "expire")
_names = itertools.count()


class History:
    """A tenant whose transitions happen at times of the test's choosing."""

    def __init__(self, go, client, admin, *, subjects: bool = True) -> None:
        self.go, self.admin = go, admin
        self.now = START_MS
        self.ledger = Ledger(client, MASTER_KEY, clock=lambda: self.now)
        self.series = LedgerSeries(client, clock=lambda: self.now)
        self.tenant = f"series-{next(_names)}"
        self.subjects = subjects
        opening = {"subject_limits": limits(1000, 10**12, basic_delta_femto=10**12)} if subjects else {}
        go(self.ledger.open_tenant(self.tenant, limits=limits(1000, 10**12, basic_delta_femto=10**12), **opening))

    def charge(self, cost, subject, **fields):
        return charge(cost, subject=f"p{subject}" if self.subjects else None, **fields)

    def release(self, cost=1, how="commit", subject=1, wait_ms=0, **fields):
        held = self.go(self.ledger.reserve(self.tenant, [self.charge(cost, subject, **fields)]))
        self.now += wait_ms
        self.end(held, how)

    def end(self, held, how):
        ended(self.go, self.ledger, held, how, self.tenant)

    def entries(self):
        return self.go(self.ledger.journal(self.tenant, limit=1000)).entries

    def read(self, **query):
        return self.go(self.series.read(self.tenant, SeriesQuery(**query)))

    def stored(self):
        """Every key of the series, as it stands in Redis."""
        found = {}
        for key in self.go(self.admin.call("KEYS", f"{{{self.tenant}}}:series*")):
            command = ("HGETALL", key) if key.endswith(b":series") else ("ZRANGE", key, 0, -1, "WITHSCORES")
            found[key] = self.go(self.admin.call(*command))
        return found


def _sums(lines) -> dict[Unit, tuple[int, ...]]:
    units = {line.unit for line in lines}
    vectors = {unit: [line.vector for line in lines if line.unit is unit] for unit in units}
    return {unit: tuple(map(sum, zip(*rows, strict=True))) for unit, rows in vectors.items()}


def replayed(entries, *, until_ms):
    """Brute force: all series as they stood just before `until_ms`, where an entry's time never runs backwards."""
    totals: dict[tuple, list[int]] = {}
    clock = 0
    for entry in entries:
        clock = max(clock, entry.at_ms)
        if clock >= until_ms or entry.transition == "open":
            continue
        touched = set()
        # A hold's subjects are not in the journal until it is spent: their sum is that of the tenant's own accounts.
        kinds = list(SubjectClass) if entry.subjects_digest else [SubjectClass.TENANT]
        if entry.subjects:
            assert _sums(entry.subjects) == _sums(entry.amounts)
        for line, kind in itertools.product(entry.amounts, kinds):
            assert line.subject_hash is None
            key = (line.unit, entry.mechanism, kind)
            now = totals.setdefault(key, [0] * 5)
            pair = (line.amount.epsilon_nano, line.amount.delta_femto)
            for index, value in enumerate(pair):
                now[2 + index] += value if entry.transition == "reserve" else -value
                if entry.transition in ("commit", "expire"):
                    now[index] += value
            touched.add(key)
        if entry.transition in ("commit", "expire"):
            for key in touched:
                totals[key][4] += 1
    return {key: Totals(*value) for key, value in totals.items()}


def assert_equals_the_journal(history: History) -> None:
    entries = history.entries()
    latest = max([history.now, *(entry.at_ms for entry in entries)])
    keys = replayed(entries, until_ms=latest + 1).keys()
    for step_s in STEPS:
        span = min(2 * step_s * 1000 * 50, (RETENTION_S[step_s] or 10**9) * 1000)
        page = history.read(step_s=step_s, from_ms=max(latest - span, START_MS - 2 * step_s * 1000))
        assert page.as_of_ms == latest
        assert {(one.unit, one.mechanism, one.subject_class) for one in page.series} == keys
        step_ms = page.step_s * 1000
        assert page.to_ms - step_ms <= latest < page.to_ms
        for index in range((page.to_ms - page.from_ms) // step_ms):
            expected = replayed(entries, until_ms=page.from_ms + (index + 1) * step_ms)
            for one in page.series:
                want = expected.get((one.unit, one.mechanism, one.subject_class), Totals())
                assert one.points[index] == want, (step_s, index, one.unit, one.subject_class)


STEP_OF_A_HISTORY = st.tuples(
    st.sampled_from([0, 1, 59_999, 60_000, 600_000, 3_600_000, 21_600_000, DAY_MS, -90_000, -DAY_MS]),
    st.one_of(
        st.tuples(st.just("reserve"), st.sampled_from([0.1, 1, 2.5]), st.integers(1, 3)),
        st.tuples(st.sampled_from(ENDS), st.integers(0, 5)),
        st.tuples(st.just("fold")),
    ),
)


@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP_OF_A_HISTORY, max_size=25), subjects=st.booleans())
def test_series_are_what_the_journal_says(go, ledger, client, admin, steps, subjects):
    history = History(go, client, admin, subjects=subjects)
    open_holds = []
    for passed_ms, (what, *details) in steps:
        history.now += passed_ms
        if what == "reserve":
            cost, subject = details
            unit = (Unit.SENTENCE, Unit.TOKEN, Unit.RECORD)[subject - 1]
            charges = [history.charge(cost, subject, unit=unit, delta_femto=subject), history.charge(1, 1)]
            open_holds.append(go(history.ledger.reserve(history.tenant, charges)))
        elif what == "fold":
            go(history.series.fold(history.tenant))
        elif open_holds:
            history.end(open_holds.pop(details[0] % len(open_holds)), what)
    go(history.series.fold(history.tenant))
    assert_equals_the_journal(history)


def test_folding_again_or_from_two_sides_counts_once(go, ledger, client, admin, server, monkeypatch):
    monkeypatch.setattr("core.reports.series.FOLD_BATCH", 3)
    history = History(go, client, admin)
    for number in range(20):
        history.release(1, ENDS[number % 3], subject=number % 4, wait_ms=30_000)
    other_client = LedgerClient(connect(url=server.url))
    others = [LedgerSeries(one) for one in (client, other_client, client, other_client)]

    async def all_at_once():
        counted = await asyncio.gather(*(one.fold(history.tenant) for one in others))
        return sum(counted) + await others[0].fold(history.tenant)

    entries = history.entries()
    assert go(all_at_once()) == len(entries)
    stored = history.stored()
    assert_equals_the_journal(history)
    assert go(history.series.fold_all()) == 0
    assert history.stored() == stored
    go(other_client.close())


def test_a_fold_that_stops_before_its_write_counts_nothing_even_when_it_arrives_late(go, ledger, client, admin, faulty):
    history = History(go, client, admin)
    history.release(1)
    faulty.plan = [LATE, LOST_REQUEST]
    with pytest.raises(LedgerUnavailable):
        go(LedgerSeries(faulty.client).fold(history.tenant))
    assert history.stored() == {}
    history.release(2, wait_ms=60_000)
    assert go(history.series.fold(history.tenant)) == len(history.entries())
    stored = history.stored()
    go(faulty.deliver())
    assert history.stored() == stored
    assert_equals_the_journal(history)


def test_one_tenant_that_cannot_be_read_does_not_hold_up_the_others(go, ledger, client, admin):
    broken, whole = History(go, client, admin), History(go, client, admin)
    broken.release(1)
    whole.release(1)
    go(admin.call("RENAME", f"{{{broken.tenant}}}:journal", "aside"))
    go(admin.call("SET", f"{{{broken.tenant}}}:journal", "x"))
    with pytest.raises(LedgerUnavailable):
        go(broken.series.fold_all())
    assert_equals_the_journal(whole)
    go(admin.call("RENAME", "aside", f"{{{broken.tenant}}}:journal"))
    assert go(broken.series.fold_all()) == len(broken.entries())
    assert_equals_the_journal(broken)


def test_a_fold_takes_nothing_but_integers_and_writes_nothing_else(go, ledger, client, admin):
    history = History(go, client, admin)
    history.release(1)
    good = {"expected": 0, "folded": 3, "folded_at_ms": 1, "totals": {}, "points": []}
    good |= {"name": SERIES.name, "position": SERIES.position}
    for wrong in (
        {"folded": 99},
        {"folded": "3"},
        {"folded_at_ms": -1},
        {"points": [[60, "a:b:tenant", 0, 0, ["x", "y"]]], "totals": {"a:b:tenant": "1"}},
    ):
        with pytest.raises(LedgerUnavailable):
            go(client.run("fold", key=f"{{{history.tenant}}}:tenant", args={**good, **wrong}))
    assert history.stored() == {}
    assert history.read().as_of_ms == 0
    go(client.run("fold", key=f"{{{history.tenant}}}:tenant", args=good))
    assert history.read().as_of_ms == 1


def test_a_reader_sees_how_far_the_folding_has_come(go, ledger, client, admin):
    history = History(go, client, admin)
    history.release(1)
    go(history.series.fold(history.tenant))
    history.now += 60_000
    assert history.read().as_of_ms == START_MS + 60_000  # nothing has happened since: complete
    history.release(1)
    assert history.read().as_of_ms == START_MS
    go(history.series.fold(history.tenant))
    assert history.read().as_of_ms == history.now


def test_old_points_go_and_what_is_kept_stays_right(go, ledger, client, admin):
    history = History(go, client, admin, subjects=False)
    for hours in range(0, 24 * 20, 7):
        history.now = START_MS + hours * 3_600_000
        history.release(0.5)
        go(history.series.fold(history.tenant))
    sizes = {
        step: go(admin.call("ZCARD", f"{{{history.tenant}}}:series:{step}:sentence:test-mechanism:tenant"))
        for step in STEPS
    }
    days = {60: 2, 600: 14}
    for step, kept in days.items():
        assert sizes[step] <= kept * 24 / 7 + 2
    assert sizes[86400] == len({entry.at_ms // DAY_MS for entry in history.entries()})
    assert sizes[3600] == len(range(0, 24 * 20, 7))

    # the first point that is kept carries what was trimmed before it
    entries = history.entries()
    for step, kept in days.items():
        start = history.now - kept * DAY_MS
        page = history.read(step_s=step, from_ms=start, to_ms=start + step * 10_000)
        expected = replayed(entries, until_ms=page.from_ms + step * 1000)[(Unit.SENTENCE, "test-mechanism", "tenant")]
        assert next(one for one in page.series if one.unit is Unit.SENTENCE).points[0] == expected
        with pytest.raises(InvalidInput, match=f"{kept} days"):
            history.read(step_s=step, from_ms=start - 1, to_ms=start + step * 10_000)


def test_limits_and_filters_of_a_read(go, ledger, client, admin):
    history = History(go, client, admin)
    history.now += 10 * DAY_MS
    history.release(1)
    go(history.series.fold(history.tenant))
    now = history.now

    assert len(history.read().series) == 4  # sentence and token, of the tenant and of its subjects
    assert history.read().step_s == 60
    assert history.read(from_ms=now - 2 * DAY_MS).step_s == 600
    assert history.read(from_ms=now - 100 * DAY_MS).step_s == 21600
    [one] = history.read(unit=Unit.TOKEN, subject_class=SubjectClass.SUBJECT, mechanism="test-mechanism").series
    assert (one.unit, one.subject_class) == (Unit.TOKEN, SubjectClass.SUBJECT)
    assert history.read(mechanism="another").series == ()
    last = history.read(to_ms=now + DAY_MS)
    assert last.to_ms - 60_000 <= now < last.to_ms  # nothing is known of the future

    for wrong, said in (
        ({"step_s": 61}, "60, 600, 3600, 21600, 86400"), ({"from_ms": now + 1}, "before"),
        ({"from_ms": 5, "to_ms": 5}, "before"), ({"step_s": 60, "from_ms": now - 2 * DAY_MS}, "2881 points.*1500"),
        ({"from_ms": 0}, "1500"), ({"step_s": 600, "from_ms": now - 15 * DAY_MS}, "14 days"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=said):
            history.read(**wrong)
    few = LedgerSeries(client, series_max=3, clock=lambda: now)
    with pytest.raises(InvalidInput, match=r"4 series.*3"):
        go(few.read(history.tenant, SeriesQuery()))
    assert len(go(few.read(history.tenant, SeriesQuery(unit=Unit.TOKEN))).series) == 2
    with pytest.raises(UnknownTenant):
        go(few.read("nobody", SeriesQuery()))


def test_pages_of_accounts_are_complete_and_begin_with_the_tenants_own(go, acme):
    go(acme.open_tenant("clinic", limits=limits(1000), subject_limits=limits(5)))
    go(acme.reserve("clinic", [charge(1, subject=f"p{number}") for number in range(9)]))

    def paged(tenant, limit):
        pages = pages_of(go, lambda cursor: acme.accounts_page(tenant, cursor=cursor, limit=limit))
        assert all(len(page.accounts) == limit for page in pages[:-1])
        return [state for page in pages for state in page.accounts]

    for limit in (1, 2, 3, 4, 5, 7, 200):
        assert [state.account for state in paged("acme", limit)] == [f"acme/{unit}" for unit in Unit]
        found = paged("clinic", limit)
        assert [state.account for state in found[:4]] == [f"clinic/{unit}" for unit in Unit]
        assert all(state.subject_hash for state in found[4:])
        assert len({(state.unit, state.subject_hash) for state in found}) == len(found) == 4 + 9 * 2
        assert list(go(acme.accounts("clinic"))) == found


def test_pages_neither_lose_nor_double_an_account_while_subjects_come(go, ledger):
    go(ledger.open_tenant("clinic", limits=limits(100_000), subject_limits=limits(5)))
    go(ledger.reserve("clinic", [charge(1, subject=f"early-{number}") for number in range(30)]))
    early = {state.account for state in go(ledger.accounts("clinic"))}
    rng = random.Random(1)

    def more_come():
        go(ledger.reserve("clinic", [charge(1, subject=f"late-{rng.random()}") for _ in range(3)]))

    found, cursor = [], None
    while cursor is not None or not found:
        page = go(ledger.accounts_page("clinic", cursor=cursor, limit=5))
        found += [state.account for state in page.accounts]
        cursor = page.next_cursor
        more_come()
    assert early <= set(found)
    assert len(set(found)) == len(found)


def test_a_cursor_that_no_page_gave_is_refused(go, ledger):
    go(ledger.open_tenant("clinic", limits=limits(5), subject_limits=limits(5)))
    for cursor in ("", "paragraph", "token:", "token:zz", "token:" + "a" * 63, "[token", "token\n"):
        with pytest.raises(InvalidInput):
            go(ledger.accounts_page("clinic", cursor=cursor))
    assert go(ledger.accounts_page("clinic", cursor="vector:" + "f" * 64)).accounts == ()
    with pytest.raises(UnknownTenant):
        go(ledger.accounts_page("nobody"))
