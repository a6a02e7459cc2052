"""The kinds of rules: one row for each. A kind reads one tenant and returns what its condition holds for.

A kind is evaluated again only if its stamp has changed: the rule, the entries or current limits that its figures
depend on, or the hour.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.amounts import NANO
from service.alerts.schemas import BudgetUsed, Integrity, JobEnded, RunsOut, SpentWithoutOutput, UnusualSpending
from service.alerts.view import DAY_MS, HOUR_MS, LEDGER, View

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
class Kind:
    """A row of the registry.

    `stamp` returns what the result depends on; None: look at every round. `look` receives the rule's terms, the view of
    one tenant, and what the kind remembered.
    """

    terms: type[Any]
    stamp: Callable[[View], Hashable]
    look: Callable[[Any, View, Mapping[str, Any]], Awaitable[Look]]
    of_tenants: bool = True  # False: the condition is one of the whole ledger
    of_operator: bool = False  # whether the operator's own jobs have it, too

    @property
    def name(self) -> str:
        return str(self.terms.model_fields["kind"].annotation.__args__[0])


async def _budget_used(terms: BudgetUsed, view: View, _: Mapping[str, Any]) -> Look:
    """Open holds do not count: a hold that is refunded would end the alert, and the next one would fire it again."""
    found = []
    for state in await view.accounts(terms.accounts):
        share = state.committed_share
        if share >= terms.share:
            found.append(Finding(state.account, {"used": round(share, 6), "share": terms.share}))
    return Look(tuple(found))


async def _runs_out(terms: RunsOut, view: View, _: Mapping[str, Any]) -> Look:
    found = []
    for state in await view.accounts(terms.accounts):
        answer = await view.forecast(state)
        times = answer["exhausted_ms"] or {}
        at_ms = times.get(terms.case)
        has_run_out = answer["reason"] == "exhausted"
        if has_run_out or (at_ms is not None and at_ms <= view.now_ms + terms.days * DAY_MS):
            found.append(
                Finding(state.account, {"days": terms.days, "exhausted": has_run_out, "exhausted_ms": times or None})
            )
    return Look(tuple(found))


async def _spent_without_output(terms: SpentWithoutOutput, view: View, _: Mapping[str, Any]) -> Look:
    found = []
    for account, nano in (await view.lost_nano(terms.hours)).items():
        if nano > 0 and nano >= terms.epsilon * NANO:
            found.append(Finding(account, {"epsilon": nano / NANO, "hours": terms.hours}))
    return Look(tuple(found))


async def _unusual_spending(terms: UnusualSpending, view: View, _: Mapping[str, Any]) -> Look:
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


async def _integrity(terms: Integrity, view: View, _: Mapping[str, Any]) -> Look:
    age_s = view.seal_age_s()
    if age_s <= terms.seal_age_s:
        return Look(())
    return Look((Finding(LEDGER, {"reason": "not-sealed", "seal_age_s": int(age_s)}),))


async def _job_ended(terms: JobEnded, view: View, memo: Mapping[str, Any]) -> Look:
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


def _budgets(view: View) -> Hashable:
    return view.positions.seq, view.positions.limit_changes


def _hour(view: View) -> Hashable:
    return view.now_ms // HOUR_MS


KINDS: tuple[Kind, ...] = (
    Kind(BudgetUsed, _budgets, _budget_used),
    Kind(RunsOut, _hour, _runs_out),
    Kind(SpentWithoutOutput, lambda view: (view.positions.spending, _hour(view)), _spent_without_output),
    Kind(UnusualSpending, lambda view: (view.positions.series, _hour(view)), _unusual_spending),
    Kind(Integrity, lambda _: None, _integrity, of_tenants=False),
    Kind(JobEnded, lambda _: None, _job_ended, of_operator=True),
)
KINDS_BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}
