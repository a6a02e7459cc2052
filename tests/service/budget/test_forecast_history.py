"""Forecasts of accounts with weeks of history: a ledger on an injected clock, read by the endpoint's own function."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from event_kit import event
from history_kit import DAY_MS, HOUR_MS, Clock
from redis_kit import running_server

from core.accounting.events import Unit
from core.amounts import FEMTO, NANO
from core.ledger.records import Charge, Limit
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect
from core.reports.series import LedgerSeries
from service.budget.forecasting import forecast_of

START_MS = Clock.START_MS


class Spender:
    """A tenant whose releases happen at chosen times."""

    def __init__(self, redis_url: str) -> None:
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.client = LedgerClient(connect(url=redis_url))
        self.ledger = Ledger(self.client, MasterKey(bytes(32)), clock=self.clock)
        self.series = LedgerSeries(self.client, clock=self.clock)

    def open(self, epsilon: float, delta: float = 0, subject_epsilon: float | None = None) -> None:
        self.clock.now_ms = START_MS
        self.runner.run(self.client.call("FLUSHALL"))

        def limits(number: float) -> dict[Unit, Limit]:
            return {unit: Limit(round(number * NANO), round(delta * FEMTO)) for unit in Unit}

        subjects = None if subject_epsilon is None else limits(subject_epsilon)
        self.runner.run(self.ledger.open_tenant("acme", limits=limits(epsilon), subject_limits=subjects))

    def spend(self, epsilon: float, times: int = 1, subject: str | None = None) -> str:
        charge = Charge(event("pure", epsilon, unit=Unit.RECORD), subject, times=times)
        hold = self.runner.run(self.ledger.reserve("acme", [charge]))
        self.runner.run(self.ledger.commit("acme", hold.release_id))
        return hold.accounts[0].account

    def forecast(self, account: str = "acme/record") -> dict[str, Any]:
        self.runner.run(self.series.fold("acme"))
        state = self.runner.run(self.ledger.account("acme", account))
        return self.runner.run(forecast_of(state, "acme", self.ledger, self.series, now_ms=self.clock.now_ms))


@pytest.fixture(scope="module")
def spender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spender]:
    with running_server(tmp_path_factory.mktemp("forecast") / "redis") as server:
        spender = Spender(server.url)
        yield spender
        spender.runner.run(spender.ledger.close())
        spender.runner.close()


def test_equal_days_end_on_the_day_that_arithmetic_says(spender: Spender) -> None:
    spender.open(epsilon=100)
    for day in range(10):
        spender.clock.now_ms = START_MS + day * DAY_MS + 12 * HOUR_MS
        spender.spend(4)
    spender.clock.now_ms = START_MS + 10 * DAY_MS
    found = spender.forecast()
    assert found["reason"] is None
    assert found["history"]["intervals"] == 9, "the first day is not whole"
    assert found["history"]["step_s"] == 86400
    assert found["spent"] == {"epsilon": 40.0, "exhausted_at": 100.0}
    end = spender.clock.now_ms + 15 * DAY_MS  # 60 left, 4 a day
    assert found["exhausted_ms"] == {"earliest": end, "middle": end, "latest": end}
    assert found["line"][-1] == {"at_ms": end, "low": 100.0, "middle": 100.0, "high": 100.0}


def test_a_young_account_is_forecast_by_hours_and_a_younger_one_not(spender: Spender) -> None:
    spender.open(epsilon=100)
    for hour in range(30):
        spender.clock.now_ms = START_MS + hour * HOUR_MS + 1
        spender.spend(0.5 if hour % 2 else 1.5)
        if hour == 20:
            assert spender.forecast()["reason"] == "too-little-history"
    found = spender.forecast()
    assert found["history"]["step_s"] == 3600
    assert found["history"]["intervals"] == 28
    assert found["exhausted_ms"]["earliest"] < found["exhausted_ms"]["middle"] < found["exhausted_ms"]["latest"]
    spender.clock.now_ms += 40 * DAY_MS
    assert spender.forecast()["reason"] == "nothing-spent"


def test_the_end_of_an_account_with_arms_is_beyond_its_limit_in_the_sum(spender: Spender) -> None:
    spender.open(epsilon=10, delta=1e-6)
    for day in range(9):
        spender.clock.now_ms = START_MS + day * DAY_MS + 1
        spender.spend(0.05, times=10)
    spender.clock.now_ms = START_MS + 9 * DAY_MS
    found = spender.forecast()
    capacity = found["spent"]["exhausted_at"]
    assert capacity > 15, "small pure releases last longer than their sum"
    before = int((capacity - found["spent"]["epsilon"]) / 0.05)
    spender.spend(0.05, times=before - 1)
    assert spender.forecast()["reason"] is None
    spender.spend(0.05, times=1)
    assert spender.runner.run(spender.ledger.account("acme", "acme/record")).remaining.epsilon_nano / NANO < 0.05


def test_a_subject_is_forecast_from_its_own_releases(spender: Spender) -> None:
    spender.open(epsilon=1000, subject_epsilon=30)
    for day in range(10):
        spender.clock.now_ms = START_MS + day * DAY_MS + 1
        account = spender.spend(2, subject="one")
        spender.spend(10 - 2 * day if day < 3 else 0.001, subject="other")
    spender.clock.now_ms = START_MS + 10 * DAY_MS
    found = spender.forecast(account)
    end = spender.clock.now_ms + 5 * DAY_MS
    assert found["exhausted_ms"] == {"earliest": end, "middle": end, "latest": end}
