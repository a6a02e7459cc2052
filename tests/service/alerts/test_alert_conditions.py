"""When each kind of rule fires and ends: a ledger on an injected clock, and rounds of the evaluator."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from event_kit import event
from history_kit import DAY_MS, HOUR_MS, Clock
from redis_kit import running_server

from core.accounting.events import Unit
from core.amounts import NANO
from core.ledger.records import Charge, Limit
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect
from core.redis.names import SHARED_OWNER
from core.reports.series import LedgerSeries, SpendingTotals
from core.state.alerts import AlertLimits, AlertStore
from core.state.jobs import JobStatus, JobStore
from service.alerts.evaluation import Evaluator, RuleBook
from service.alerts.rules import Sources, TenantView


class Rounds:
    """Tenants whose releases happen at chosen times, and the evaluator of one gateway."""

    def __init__(self, redis_url: str) -> None:
        self.go = asyncio.Runner().run
        self.clock = Clock()
        self.client = LedgerClient(connect(url=redis_url))
        master_key = MasterKey(bytes(32))
        self.ledger = Ledger(self.client, master_key, clock=self.clock)
        self.folds = (LedgerSeries(self.client, clock=self.clock), SpendingTotals(self.client, clock=self.clock))
        self.jobs = JobStore(self.client, gateway="g", clock=self.clock)
        self.store = AlertStore(self.client, master_key, limits=AlertLimits(), clock=self.clock)
        self.seal_age_s = 0.0
        self.sources = Sources(
            self.ledger, *self.folds, self.jobs, seal_age_s=lambda: self.seal_age_s, forecasts_max=100
        )

    def start(self) -> None:
        """An empty ledger with a tenant, and a gateway that has just got the lease."""
        self.clock.now_ms = Clock.START_MS
        self.seal_age_s = 0.0
        self.sources.forecasts.clear()
        self.go(self.client.call("FLUSHALL"))
        self.tenant("acme")
        self.restart()

    def restart(self) -> None:
        self.book = RuleBook(self.store)
        self.evaluator = Evaluator(self.store, self.book, self.sources, holder="me")
        self.go(self.store.take_lease("me", ttl_ms=10**9))

    def tenant(self, name: str, epsilon: float = 100) -> None:
        self.go(self.ledger.open_tenant(name, limits={unit: Limit(round(epsilon * NANO)) for unit in Unit}))

    def rule(self, owner: str = "acme", name: str = "r", tenants: list[str] | None = None, **when: Any) -> None:
        content = {"when": when, "url": None, "secret": None, "tenants": tenants}
        self.go(self.store.put_rule(owner, name, content))

    def hold(self, epsilon: float, tenant: str = "acme") -> str:
        charge = Charge(event("pure", epsilon, unit=Unit.RECORD))
        return self.go(self.ledger.reserve(tenant, [charge])).release_id

    def spend(self, epsilon: float, tenant: str = "acme", *, lost: bool = False) -> None:
        release = self.hold(epsilon, tenant)
        if lost:
            self.go(self.ledger.expire(tenant, release, reason="test"))
        else:
            self.go(self.ledger.commit(tenant, release))

    def hold_and_refund(self, epsilon: float) -> None:
        for _ in range(3):
            hold = self.hold(epsilon)
            self.round()
            self.go(self.ledger.cancel("acme", hold, reason="test"))
            self.round()

    def round(self) -> int:
        for fold in self.folds:
            self.go(fold.fold_all())
        self.go(self.book.refresh())
        return self.go(self.evaluator.round())

    def listed(self, place: Any = "open", owner: str = "acme") -> list[str]:
        """The targets of alerts, the oldest first."""
        return [alert.target for alert in self.go(self.store.page(owner, place, cursor=None, limit=100)).alerts][::-1]

    def facts(self, owner: str = "acme") -> dict[str, Any]:
        [alert] = self.go(self.store.page(owner, "open", cursor=None, limit=100)).alerts
        return dict(alert.facts)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rounds]:
    with running_server(tmp_path_factory.mktemp("conditions") / "redis") as server:
        rounds = Rounds(server.url)
        yield rounds
        rounds.go(rounds.client.close())


@pytest.fixture
def rounds(shared: Rounds) -> Rounds:
    shared.start()
    return shared


def test_a_share_of_the_budget_fires_once(rounds: Rounds) -> None:
    rounds.rule(kind="budget_used", share=0.5, accounts=None)
    rounds.spend(49)
    rounds.round()
    assert rounds.listed() == []
    rounds.spend(1)
    for _ in range(3):
        rounds.round()
        assert rounds.listed(None) == ["acme/record"]
    assert rounds.facts() == {"used": 0.5, "share": 0.5}
    rounds.spend(1)
    rounds.round()
    rounds.restart()
    rounds.round()
    assert rounds.listed(None) == ["acme/record"], "neither more spending nor a restart fires it again"


def test_holds_that_are_refunded_fire_nothing(rounds: Rounds) -> None:
    rounds.rule(kind="budget_used", share=0.5, accounts=None)
    rounds.spend(45)
    rounds.hold_and_refund(10)
    assert rounds.listed(None) == []
    rounds.spend(10, lost=True)
    rounds.round()
    rounds.hold_and_refund(10)
    assert rounds.listed("open") == rounds.listed(None) == ["acme/record"], "a hold that expired is spent"


def test_only_the_accounts_of_a_rule_count(rounds: Rounds) -> None:
    rounds.rule(kind="budget_used", share=0.1, accounts=["acme/token", "acme/sentence/0123456789abcdef"])
    rounds.tenant("other")
    rounds.rule(name="foreign", kind="budget_used", share=0.1, accounts=["other/record"])
    rounds.spend(40)
    rounds.spend(40, "other")
    rounds.round()
    assert rounds.listed(None) == []


def test_a_changed_rule_ends_what_no_longer_holds(rounds: Rounds) -> None:
    rounds.rule(kind="budget_used", share=0.1, accounts=None)
    rounds.spend(40)
    rounds.round()
    rounds.rule(kind="budget_used", share=0.9, accounts=None)
    rounds.round()
    assert (rounds.listed("open"), rounds.listed("over")) == ([], ["acme/record"])


def test_a_current_limit_that_is_lowered_or_raised_fires_and_ends_without_a_release(rounds: Rounds) -> None:
    rounds.rule(kind="budget_used", share=0.5, accounts=None)
    rounds.spend(20)
    rounds.round()
    assert rounds.listed(None) == []
    rounds.go(rounds.ledger.set_current_limit("acme", "acme/record", 25 * NANO))
    rounds.round()
    assert rounds.listed() == ["acme/record"]
    assert rounds.facts() == {"used": 0.8, "share": 0.5}
    rounds.go(rounds.ledger.set_current_limit("acme", "acme/record", 100 * NANO))
    rounds.round()
    assert (rounds.listed("open"), rounds.listed("over")) == ([], ["acme/record"])


def test_a_forecast_of_exhaustion(rounds: Rounds) -> None:
    rounds.rule(kind="forecast", days=30, case="latest")
    rounds.rule(name="soon", kind="forecast", days=1, case="earliest")
    for _ in range(10):
        rounds.spend(4)
        rounds.clock.now_ms += DAY_MS
    rounds.round()
    assert rounds.listed() == ["acme/record"]
    facts = rounds.facts()
    assert rounds.clock.now_ms < facts["exhausted_ms"]["earliest"] <= facts["exhausted_ms"]["latest"]
    for _ in range(28):  # nothing is spent any more
        rounds.clock.now_ms += DAY_MS
        rounds.round()
    assert (rounds.listed("open"), rounds.listed("over")) == ([], ["acme/record"])


def test_an_exhausted_account_stays_an_alert_of_a_forecast(rounds: Rounds) -> None:
    rounds.rule(kind="forecast", days=1)
    rounds.spend(100)
    rounds.round()
    assert rounds.facts()["exhausted"] is True


def test_epsilon_that_is_spent_without_an_output(rounds: Rounds) -> None:
    rounds.rule(kind="spent_without_output", hours=2, epsilon=3)
    rounds.rule(name="any", kind="spent_without_output", hours=2, epsilon=0)
    rounds.spend(5)
    rounds.round()
    assert rounds.listed() == []
    rounds.spend(2, lost=True)
    rounds.round()
    assert rounds.listed() == ["acme/record"]
    assert rounds.facts() == {"epsilon": 2, "hours": 2}
    rounds.clock.now_ms += HOUR_MS
    rounds.spend(1, lost=True)
    rounds.round()
    assert rounds.listed() == ["acme/record"] * 2
    rounds.clock.now_ms += HOUR_MS
    rounds.round()
    assert (len(rounds.listed("open")), len(rounds.listed("over"))) == (1, 1)
    rounds.clock.now_ms += HOUR_MS
    rounds.round()
    assert (len(rounds.listed("open")), len(rounds.listed("over"))) == (0, 2)


def test_unusual_spending_is_compared_with_the_accounts_own_hours(rounds: Rounds) -> None:
    rounds.rule(kind="unusual_spending", factor=2.0, epsilon=0.0)
    rounds.spend(5)
    rounds.round()
    assert rounds.listed() == [], "without a history nothing is unusual"
    for _ in range(30):
        rounds.clock.now_ms += HOUR_MS
        rounds.spend(1)
        rounds.round()
        assert rounds.listed() == []
    rounds.clock.now_ms += HOUR_MS
    rounds.spend(11)
    rounds.round()
    assert rounds.facts() == {"epsilon": 11, "largest_hour": 5, "hours": 31}
    rounds.clock.now_ms += HOUR_MS
    rounds.round()
    assert (rounds.listed("open"), rounds.listed("over")) == ([], ["acme/record"])


def test_little_spending_is_never_unusual(rounds: Rounds) -> None:
    rounds.rule(kind="unusual_spending", factor=2.0, epsilon=10)
    rounds.spend(0.1)
    rounds.clock.now_ms += 30 * HOUR_MS
    rounds.spend(5)
    rounds.round()
    assert rounds.listed() == []
    rounds.spend(5)
    rounds.round()
    assert rounds.listed() == ["acme/record"]


def test_a_ledger_that_is_not_sealed(rounds: Rounds) -> None:
    rounds.rule(kind="integrity", seal_age_s=300)
    rounds.rule(SHARED_OWNER, kind="integrity", seal_age_s=500)
    rounds.seal_age_s = 301
    rounds.round()
    assert (rounds.listed(), rounds.listed(owner=SHARED_OWNER)) == (["ledger"], [])
    rounds.seal_age_s = 501
    rounds.round()
    assert rounds.listed(owner=SHARED_OWNER) == ["ledger"]
    rounds.seal_age_s = 1
    rounds.round()
    assert (rounds.listed("over"), rounds.listed("over", SHARED_OWNER)) == (["ledger"], ["ledger"])


class Job:
    def __init__(self, rounds: Rounds, number: int, owner: str = "acme") -> None:
        self.id, self._rounds, self._owner = f"{number:032x}", rounds, owner
        rounds.go(
            rounds.jobs.create(owner, self.id, kind="test", label="a", claim="c", open_max=1000, state="s", size=0)
        )

    def end(self, status: JobStatus = JobStatus.SUCCEEDED) -> str:
        jobs, go = self._rounds.jobs, self._rounds.go
        go(jobs.take(self._owner, self.id, run="r", attempts_max=3, exhausted=None))
        go(jobs.finish(self._owner, self.id, run="r", status=status))
        return self.id


@pytest.fixture
def no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.state.jobs.problem_of", lambda _: {})


@pytest.mark.usefixtures("no_problem")
def test_each_job_that_ends_is_one_alert(rounds: Rounds) -> None:
    before, running = Job(rounds, 1), Job(rounds, 2)
    before.end()
    rounds.rule(kind="job_ended", statuses=["succeeded", "failed"])
    rounds.round()
    assert rounds.listed(None) == []
    short = Job(rounds, 3).end()
    rounds.round()
    assert rounds.listed("over") == [short]
    for _ in range(3):
        rounds.clock.now_ms += 30_000
        rounds.round()
    rounds.restart()
    rounds.clock.now_ms += DAY_MS
    Job(rounds, 4).end(JobStatus.CANCELLED)
    failed = Job(rounds, 5).end(JobStatus.FAILED)
    ended = running.end()
    rounds.round()
    rounds.round()
    assert rounds.listed("open") == []
    assert sorted(rounds.listed("over")) == sorted([short, failed, ended])


@pytest.mark.usefixtures("no_problem")
def test_the_operators_rules_are_about_tenants_and_its_own_jobs(rounds: Rounds) -> None:
    rounds.tenant("other")
    rounds.rule(SHARED_OWNER, name="all", kind="budget_used", share=0.5)
    rounds.rule(SHARED_OWNER, name="one", kind="budget_used", share=0.5, tenants=["other", "nobody"])
    rounds.rule(SHARED_OWNER, name="jobs", kind="job_ended")
    rounds.round()
    rounds.spend(60)
    own = Job(rounds, 7, SHARED_OWNER).end()
    rounds.round()
    assert (rounds.listed(owner=SHARED_OWNER), rounds.listed("over", SHARED_OWNER)) == (["acme/record"], [own])
    rounds.spend(60, "other")
    rounds.round()
    assert sorted(rounds.listed(owner=SHARED_OWNER)) == ["acme/record", "other/record", "other/record"]
    assert rounds.listed(None) == [], "a tenant does not see the operator's alerts"
    rounds.go(rounds.store.delete_rule(SHARED_OWNER, "all"))
    assert rounds.listed(owner=SHARED_OWNER) == ["other/record"]


def test_a_rule_that_cannot_be_evaluated_leaves_the_others(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(TenantView, "lost_nano", broken)
    rounds.rule(name="a", kind="spent_without_output", hours=1, epsilon=0)
    rounds.rule(name="b", kind="budget_used", share=0.5)
    rounds.spend(60)
    rounds.round()
    assert rounds.listed() == ["acme/record"]
