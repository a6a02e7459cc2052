"""The kinds of rules, a row each, and what they read. A kind reads one tenant and returns what its condition holds for.

A kind is evaluated again only if its stamp has changed: the rule, the entries or current limits that its figures
depend on, or the hour. A `TenantView` reads each thing once in a round, however many rules ask for it.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from core.accounting.events import Unit
from core.amounts import NANO
from core.errors import UnknownAccount, UnknownJob
from core.ledger.records import AccountState
from core.ledger.transitions import Ledger
from core.redis.names import account_id
from core.reports.series import HOUR_S, LOST, Dimension, LedgerSeries, SpendingTotals
from core.state.alerts import JournalPositions
from core.state.jobs import JobRecord, JobStore
from service.alerts.schemas import (
    HISTORY_HOURS,
    BudgetUsed,
    Integrity,
    JobEnded,
    RunsOut,
    SpentWithoutOutput,
    UnusualSpending,
)
from service.budget.forecasting import forecast_of

HOUR_MS = HOUR_S * 1000
DAY_MS = 24 * HOUR_MS
LEDGER = "ledger"  # the target of rules about the whole ledger
HISTORY_HOURS_MIN = 24
JOBS_MAX = 500  # of one look
FORECASTS_MAX = 20  # of one round, which would otherwise take long when an hour begins


class SpentHours(NamedTuple):
    """How many whole hours an account has, the most that it spent in one, and its spending in this hour, in nano."""

    hours: int
    largest_nano: int
    current_nano: int


@dataclass
class Sources:
    """Where rules read. `seal_age_s` is that of this gateway's last seal."""

    ledger: Ledger
    series: LedgerSeries
    spending: SpendingTotals
    jobs: JobStore
    seal_age_s: Callable[[], float]
    forecasts_max: int = FORECASTS_MAX
    forecasts: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)  # by account: the hour, the answer
    forecasts_left: int = 0
    hours: dict[str, tuple[int, dict[Unit, tuple[int, int]]]] = field(default_factory=dict)  # by tenant: as forecasts


class TenantView:
    """One tenant at `now_ms`; or the operator's jobs, with SHARED_OWNER."""

    def __init__(self, sources: Sources, tenant: str, now_ms: int, positions: JournalPositions) -> None:
        self.tenant = tenant
        self.now_ms = now_ms
        self.positions = positions
        self.seal_age_s = sources.seal_age_s
        self._sources = sources
        self._own: tuple[AccountState, ...] | None = None
        self._lost: dict[int, dict[str, int]] = {}
        self._open_jobs: frozenset[str] | None = None

    async def accounts(self, listed: Sequence[str] | None) -> Sequence[AccountState]:
        """The accounts of these ids, without those that do not exist yet; by default the tenant's own."""
        ledger = self._sources.ledger
        if listed is None:
            if self._own is None:
                self._own = await ledger.own_accounts(self.tenant)
            return self._own
        found = []
        for account in listed:
            try:
                found.append(await ledger.account(self.tenant, account))
            except UnknownAccount:
                continue
        return found

    async def forecast(self, state: AccountState) -> dict[str, Any] | None:
        """The forecast of this hour, or None if this round has made as many forecasts as it may."""
        hour, cache = self.now_ms // HOUR_MS, self._sources.forecasts
        if state.account not in cache or cache[state.account][0] != hour:
            if state.committed.epsilon_nano and self._sources.forecasts_left <= 0:
                return None
            self._sources.forecasts_left -= bool(state.committed.epsilon_nano)
            answer = await forecast_of(
                state, self.tenant, self._sources.ledger, self._sources.series, now_ms=self.now_ms
            )
            cache[state.account] = (hour, {name: answer[name] for name in ("reason", "exhausted_ms")})
        return cache[state.account][1]

    async def spent_hours(self) -> dict[str, SpentHours]:
        """What each own account with a history of a day has spent by the hour, at most 28 days back.

        The whole hours are read once an hour. What is folded into them after that does not count.
        """
        hour = self.now_ms // HOUR_MS
        known = self._sources.hours.get(self.tenant)
        if known is None or known[0] != hour:
            known = self._sources.hours[self.tenant] = (hour, await self._past_hours(hour))
        found = {}
        for unit, (count, largest) in known[1].items():
            before, now = await self._totals(unit, hour - 1, hour + 1)
            found[account_id(self.tenant, unit, None)] = SpentHours(count, largest, now - before)
        return found

    async def _past_hours(self, hour: int) -> dict[Unit, tuple[int, int]]:
        """The number of whole hours since an account's first release, and the most that it spent in one."""
        found = {}
        for unit in Unit:
            totals = await self._totals(unit, hour - HISTORY_HOURS - 1, hour)
            hours = [after - before for before, after in pairwise(totals)]
            if not totals[0]:
                first = next((index for index, nano in enumerate(hours) if nano), len(hours))
                hours = hours[first:]
            if len(hours) >= HISTORY_HOURS_MIN:
                found[unit] = (len(hours), max(hours))
        return found

    async def _totals(self, unit: Unit, first_hour: int, stop_hour: int) -> list[int]:
        """The sum of epsilon in nano at the end of each hour."""
        sums = await self._sources.series.spent(
            self.tenant, unit, step_s=HOUR_S, first_ms=first_hour * HOUR_MS, stop_ms=stop_hour * HOUR_MS
        )
        return [point.committed_epsilon_nano for point in sums]

    async def lost_nano(self, hours: int) -> dict[str, int]:
        """What each own account spent without an output in the last hours, the current one included."""
        if hours not in self._lost:
            stop_ms = (self.now_ms // HOUR_MS + 1) * HOUR_MS
            page = await self._sources.spending.page(
                self.tenant,
                _unit_of_lost,
                step_s=HOUR_S,
                first_ms=stop_ms - (hours + 1) * HOUR_MS,
                stop_ms=stop_ms,
                offset=0,
                limit=len(Unit),
            )
            self._lost[hours] = {
                account_id(self.tenant, Unit(row.label), None): row.points[-1].committed_epsilon_nano
                - row.points[0].committed_epsilon_nano
                for row in page.rows
            }
        return self._lost[hours]

    async def open_jobs(self) -> frozenset[str]:
        if self._open_jobs is None:
            self._open_jobs = frozenset(await self._sources.jobs.unfinished_ids(self.tenant))
        return self._open_jobs

    async def jobs_since(self, since_ms: int) -> list[str]:
        """The ids of jobs that were created at or after a time."""
        return await self._sources.jobs.created_since(self.tenant, since_ms, limit=JOBS_MAX)

    async def jobs(self, ids: Sequence[str]) -> list[JobRecord]:
        """The jobs of these ids that have ended."""
        found = []
        for job_id in ids:
            try:
                job = await self._sources.jobs.get(self.tenant, job_id)
            except UnknownJob:
                continue
            if job.status.ended:
                found.append(job)
        return found


def _unit_of_lost(series: str) -> str | None:
    unit, dimension, value = series.split(":", 2)
    return unit if (dimension, value) == (Dimension.OUTCOME.value, LOST) else None


JOB_OVERLAP_MS = 60_000


@dataclass(frozen=True)
class Finding:
    """What a condition holds for. An event, such as the end of a job, is over at once."""

    target: str
    facts: Mapping[str, Any]
    is_event: bool = False


@dataclass(frozen=True)
class Look:
    """What a kind found, and what it remembers until the next time."""

    findings: tuple[Finding, ...]
    memo: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleKind:
    """A row of the registry.

    `stamp` returns what the result depends on; None: look at every round. `look` receives the rule's terms, the view of
    one tenant, and what the kind remembered. It returns None to be called again in the next round.
    """

    terms: type[Any]
    stamp: Callable[[TenantView], Hashable]
    look: Callable[[Any, TenantView, Mapping[str, Any]], Awaitable[Look | None]]
    of_tenants: bool = True  # False: the condition is one of the whole ledger
    of_operator: bool = False  # whether the operator's own jobs have it, too

    @property
    def name(self) -> str:
        return str(self.terms.model_fields["kind"].annotation.__args__[0])


async def _budget_used(terms: BudgetUsed, view: TenantView, _: Mapping[str, Any]) -> Look:
    """Open holds do not count: a hold that is refunded would end the alert, and the next one would fire it again."""
    found = []
    for state in await view.accounts(terms.accounts):
        share = state.committed_share
        if share >= terms.share:
            found.append(Finding(state.account, {"used": round(share, 6), "share": terms.share}))
    return Look(tuple(found))


async def _runs_out(terms: RunsOut, view: TenantView, _: Mapping[str, Any]) -> Look | None:
    found = []
    for state in await view.accounts(terms.accounts):
        answer = await view.forecast(state)
        if answer is None:
            return None
        times = answer["exhausted_ms"] or {}
        at_ms = times.get(terms.case)
        has_run_out = answer["reason"] == "exhausted"
        if has_run_out or (at_ms is not None and at_ms <= view.now_ms + terms.days * DAY_MS):
            found.append(
                Finding(state.account, {"days": terms.days, "exhausted": has_run_out, "exhausted_ms": times or None})
            )
    return Look(tuple(found))


async def _spent_without_output(terms: SpentWithoutOutput, view: TenantView, _: Mapping[str, Any]) -> Look:
    found = []
    for account, nano in (await view.lost_nano(terms.hours)).items():
        if nano > 0 and nano >= terms.epsilon * NANO:
            found.append(Finding(account, {"epsilon": nano / NANO, "hours": terms.hours}))
    return Look(tuple(found))


async def _unusual_spending(terms: UnusualSpending, view: TenantView, _: Mapping[str, Any]) -> Look:
    found = []
    least = max(1, terms.epsilon * NANO)
    for account, spent in (await view.spent_hours()).items():
        if spent.current_nano >= least and spent.current_nano > terms.factor * spent.largest_nano:
            facts = {
                "epsilon": spent.current_nano / NANO,
                "largest_hour": spent.largest_nano / NANO,
                "hours": spent.hours,
            }
            found.append(Finding(account, facts))
    return Look(tuple(found))


async def _integrity(terms: Integrity, view: TenantView, _: Mapping[str, Any]) -> Look:
    age_s = view.seal_age_s()
    if age_s <= terms.seal_age_s:
        return Look(())
    return Look((Finding(LEDGER, {"reason": "not-sealed", "seal_age_s": int(age_s)}),))


async def _job_ended(terms: JobEnded, view: TenantView, memo: Mapping[str, Any]) -> Look:
    """Jobs are remembered while they run. Those that were created since the last look may have ended since, too.

    `since_ms` lies a minute back, because a job's creation may be written after a later one's. `done` are the jobs
    since then that were reported.
    """
    recent_ms = view.now_ms - JOB_OVERLAP_MS
    open_ids = await view.open_jobs()
    done, watched = memo.get("done", []), sorted(open_ids)
    seen = dict.fromkeys([*memo.get("watched", []), *await view.jobs_since(memo.get("since_ms", recent_ms))])
    ended = [job_id for job_id in seen if job_id not in open_ids and job_id not in done]
    if memo and not ended and watched == memo["watched"]:
        return Look((), memo)
    found = []
    for job in await view.jobs(ended if memo else ()):  # a new rule reports none that ended before
        if job.status.value in terms.statuses:
            facts = {"job_kind": job.kind, "job_status": job.status.value, "spent": job.spent.epsilon_nano / NANO}
            found.append(Finding(job.job_id, facts, is_event=True))
    recent = set(await view.jobs_since(recent_ms))
    kept = [job_id for job_id in [*done, *ended] if job_id in recent]
    return Look(tuple(found), {"since_ms": recent_ms, "watched": watched, "done": kept})


def _budgets(view: TenantView) -> Hashable:
    return view.positions.seq, view.positions.limit_changes


def _hour(view: TenantView) -> Hashable:
    return view.now_ms // HOUR_MS


KINDS: tuple[RuleKind, ...] = (
    RuleKind(BudgetUsed, _budgets, _budget_used),
    RuleKind(RunsOut, _hour, _runs_out),
    RuleKind(SpentWithoutOutput, lambda view: (view.positions.spending, _hour(view)), _spent_without_output),
    RuleKind(UnusualSpending, lambda view: (view.positions.series, _hour(view)), _unusual_spending),
    RuleKind(Integrity, lambda _: None, _integrity, of_tenants=False),
    RuleKind(JobEnded, lambda _: None, _job_ended, of_operator=True),
)
KINDS_BY_NAME: Mapping[str, RuleKind] = {kind.name: kind for kind in KINDS}
