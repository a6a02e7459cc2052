"""Older points of series are packed: reads return the same, and Redis needs a fraction of the memory."""

import itertools

import pytest
from ledger_kit import MASTER_KEY, limits

from core.ledger.transitions import Ledger
from core.redis import names
from core.reports.series import RETENTION_S, LedgerSeries, SeriesQuery, Totals

START_S = 1_700_000_000 // 86_400 * 86_400
SERIES = "sentence:test-mechanism:tenant"
DAY_S = 86_400
_names = itertools.count()


class Minutes:
    """A tenant whose points of a minute are folded without a journal."""

    def __init__(self, go, client, admin) -> None:
        self.go, self.client, self.admin = go, client, admin
        self.tenant = f"packed-{next(_names)}"
        self.values: dict[int, Totals] = {}
        self.now_s = START_S
        go(Ledger(client, MASTER_KEY).open_tenant(self.tenant, limits=limits(1000, 10**12)))
        go(admin.call("HSET", names.tenant_key(self.tenant), "folded", 1))

    def fold(self, *minutes: int, step_s: int = 60) -> None:
        """Fold points at these minutes since the start."""
        rows = []
        for minute in minutes:
            bucket = START_S + minute * 60
            count = len(self.values) + 1
            self.values[bucket] = Totals(count * 10**15 + minute, 3, minute % 7 * 10**9, 0, count)
            rows += [bucket, f"{bucket} {' '.join(map(str, self.values[bucket]))}"]
        self.now_s = rows[-2]
        total = " ".join(map(str, self.values[self.now_s]))
        horizon = self.now_s - (RETENTION_S[step_s] or self.now_s)
        args = {
            **{"name": "series", "position": "folded", "expected": 1, "folded": 1, "folded_at_ms": self.now_s * 1000},
            **{"totals": {SERIES: total}, "points": [[step_s, SERIES, rows[0], horizon, rows]]},
        }
        found, _ = self.go(self.client.run("fold", key=names.tenant_key(self.tenant), args=args))
        assert found["outcome"] == "folded"

    def assert_read(self, first_s: int, stop_s: int, step_s: int = 60) -> None:
        series = LedgerSeries(self.client, points_max=10**6, clock=lambda: self.now_s * 1000)
        query = SeriesQuery(from_ms=first_s * 1000, to_ms=stop_s * 1000, step_s=step_s)
        page = self.go(series.read(self.tenant, query))
        expected = []
        for bucket in range(page.from_ms // 1000, page.to_ms // 1000, step_s):
            known = [at for at in self.values if at <= bucket]
            expected.append(self.values[max(known)] if known else Totals())
        assert list(page.series[0].points) == expected

    def keys(self) -> list[str]:
        return [key.decode() for key in self.go(self.admin.call("KEYS", f"{{{self.tenant}}}:series:*"))]

    @property
    def used_bytes(self) -> int:
        return sum(int(self.go(self.admin.call("MEMORY", "USAGE", key, "SAMPLES", 0))) for key in self.keys())


@pytest.fixture
def minutes(go, ledger, client, admin) -> Minutes:
    return Minutes(go, client, admin)


@pytest.mark.parametrize("at_once", [1, 7, 200])
def test_a_read_returns_the_points_whatever_is_packed(minutes: Minutes, at_once: int) -> None:
    """Also of minutes without a point, and from the middle of a text."""
    busy = [minute for minute in range(500) if minute % 11 and not 200 <= minute < 260]
    for start in range(0, len(busy), at_once):
        minutes.fold(*busy[start : start + at_once])
    end_s = minutes.now_s + 60
    for first in (-5, 0, 1, 59, 60, 61, 199, 230, 261, 380, 499):
        minutes.assert_read(START_S + first * 60, end_s)
    minutes.assert_read(START_S, START_S + 60 * 60)
    minutes.assert_read(START_S + 10 * 60, START_S + 11 * 60)


def test_the_current_minute_is_replaced_beside_packed_ones(minutes: Minutes) -> None:
    minutes.fold(*range(200))
    for _ in range(3):
        minutes.fold(199)
        minutes.assert_read(START_S, minutes.now_s + 60)


def test_constant_activity_takes_a_fraction_of_the_memory_and_old_texts_go(minutes: Minutes) -> None:
    for start in range(0, 4 * 1440, 240):
        minutes.fold(*range(start, start + 240))
    kept = 2 * 1440
    assert minutes.used_bytes < 60 * kept, "a point of its own takes 150 bytes"
    first_s = minutes.now_s - 2 * DAY_S
    minutes.assert_read(first_s, minutes.now_s + 60)
    texts = minutes.go(minutes.admin.call("ZCARD", f"{{{minutes.tenant}}}:series:packed:60:{SERIES}"))
    assert texts <= kept // 60 + 1
    minutes.fold(4 * 1440 + 2 * kept)  # after a pause, one point before the horizon is left
    minutes.assert_read(minutes.now_s - 2 * DAY_S, minutes.now_s + 60)
    minutes.fold(*range(4 * 1440 + 4 * kept, 4 * 1440 + 4 * kept + 200))
    minutes.assert_read(minutes.now_s - 2 * DAY_S, minutes.now_s + 60)
    assert minutes.used_bytes < 30_000


def test_days_are_kept_without_limit(minutes: Minutes) -> None:
    for day in range(700):
        minutes.fold(day * 1440, step_s=DAY_S)
    minutes.assert_read(START_S - 10 * DAY_S, minutes.now_s + DAY_S, step_s=DAY_S)
    assert minutes.used_bytes < 60 * 700
