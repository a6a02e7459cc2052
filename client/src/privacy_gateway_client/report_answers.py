"""The models of reports, alerts and entries of the vault; see `answers.py`. No call that returns them charges."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from privacy_gateway_client.answers import Answer


class SpentSoFar(Answer):
    """`exhausted_at`: the sum of epsilon at which the account admits nothing more."""

    epsilon: float
    exhausted_at: float | None = None


class ForecastHistory(Answer):
    from_ms: int
    to_ms: int
    step_s: int
    intervals: int


class Band(Answer):
    """The 5 %, 50 % and 95 % quantiles."""

    low: float | None = None
    middle: float | None = None
    high: float | None = None


class ForecastPoint(Band):
    at_ms: int


class Exhausted(Answer):
    """Milliseconds since 1970; None for a moment that is too far ahead."""

    earliest: int | None = None
    middle: int | None = None
    latest: int | None = None


class Forecast(Answer):
    """When an account runs out: an estimate, never a bound. `reason` says why there is none."""

    account: str
    kind: str
    method: str
    at_ms: int
    spent: SpentSoFar
    history: ForecastHistory
    reason: str | None = None
    per_interval: Band | None = None
    exhausted_ms: Exhausted | None = None
    line: list[ForecastPoint]


class BoundLine(Answer):
    """`label`: `proven`, `estimate` or `none`. `sentence` says what the line is."""

    name: str
    label: str
    epsilon: float | None = None
    delta: float | None = None
    sentence: str


class Bounds(Answer):
    account: str
    lines: list[BoundLine]


class Spent(Answer):
    epsilon: float
    delta: float
    releases: int


class SpentBucket(Spent):
    at_ms: int


class SpendingRow(Answer):
    """Of the four labels, the one that was asked for is given; it is None for releases without one."""

    mechanism: str | None = None
    route: str | None = None
    key: str | None = None
    subject: str | None = None
    total: Spent
    buckets: list[SpentBucket]
    complete: bool = True


class Spending(Answer):
    """One page of who spent. `complete`: whether all of a subject's charges were read."""

    account: str
    by: str
    bucket_s: int
    from_ms: int
    to_ms: int
    as_of_ms: int
    rows: list[SpendingRow]
    complete: bool = True
    next_cursor: str | None = None


class SealedEntries(Answer):
    entries: int
    sealed: int
    unsealed: int
    seal: int | None = None


class OpenHolds(Answer):
    number: int
    earliest_deadline_ms: int | None = None


class SpentWithoutOutput(Spent):
    unit: str


class LastAudit(Answer):
    """The members after `ok` are for the operator alone."""

    at_ms: int
    ok: bool
    chain_ok: bool | None = None
    seals: int | None = None
    entries: int | None = None
    tenants: int | None = None
    faulty: list[str] = Field(default_factory=list)


class _Seals(Answer):
    at_ms: int
    epoch: int
    sealed_at_ms: int | None = None
    seal_age_s: float | None = None
    last_audit: LastAudit | None = None


class Integrity(_Seals):
    journal: SealedEntries
    open_holds: OpenHolds
    spent_without_output: list[SpentWithoutOutput]


class TenantIntegrity(Answer):
    tenant: str
    journal: SealedEntries
    open_holds: OpenHolds
    spent_without_output: list[SpentWithoutOutput]


class AllIntegrity(_Seals):
    """One page of every tenant's integrity."""

    tenants: list[TenantIntegrity]
    next_cursor: str | None = None


class Seconds(Answer):
    """Times of a histogram. `at_most`: bounds of `p50`, `p95` and `p99`."""

    count: int
    mean: float | None = None
    at_most: dict[str, float | None]


class CodeCount(Answer):
    code: str
    count: int


class ReasonCount(Answer):
    reason: str
    count: int


class WorkerRole(Answer):
    role: str
    ready: bool
    stage: str
    workers_ready: int
    restarts: int
    queued: int
    queue_seconds: Seconds
    batch_seconds: Seconds
    refused: list[CodeCount]


class RouteRequests(Answer):
    """`statuses`: the number of answers by status."""

    route: str
    statuses: dict[str, int]
    seconds: Seconds


class StageTimes(Answer):
    stage: str
    seconds: Seconds


class EndedJobs(Answer):
    kind: str
    status: str
    count: int


class JobCounts(Answer):
    waiting: int
    ended: list[EndedJobs]


class UpstreamCalls(Answer):
    upstream: str
    outcome: str
    count: int


class LedgerState(Answer):
    durable: bool
    sealed_ms: int | None = None


class Service(Answer):
    """The gateway since its start, in numbers."""

    at_ms: int
    started_ms: int
    workers: list[WorkerRole]
    requests: list[RouteRequests]
    stages: list[StageTimes]
    problems: list[CodeCount]
    auth_failures: list[ReasonCount]
    jobs: JobCounts
    upstreams: list[UpstreamCalls]
    ledger: LedgerState
    event_loop_late_seconds: Seconds


class Delivery(Answer):
    """`result`: `delivered`, or why it was not."""

    at_ms: int
    result: str


class RuleWebhook(Answer):
    """`secret` is shown once, by the answer that made it."""

    url: str
    secret: str | None = Field(None, repr=False)


class AlertRule(Answer):
    """A rule. `when`: its members as they were stored. `last_delivery`: of `webhook`. `tenants`: of the operator's."""

    name: str
    when: dict[str, Any]
    webhook: RuleWebhook | None = None
    last_delivery: dict[str, Delivery]
    tenants: list[str] | None = None


class Alert(Answer):
    """An alert that fired. `target`: an account, a job or `ledger`. `facts`: numbers and fixed words."""

    id: str
    rule: str
    kind: str
    tenant: str | None = None
    target: str
    status: str
    fired_ms: int
    over_ms: int | None = None
    facts: dict[str, Any]


class VaultEntry(Answer):
    id: str
    bytes: int
    expires_ms: int
