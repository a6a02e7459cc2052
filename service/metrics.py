"""Prometheus metrics of the front end. Labels are routes, stages, units and tenant names, never a part of a text."""

import time
from functools import cache
from types import TracebackType

from prometheus_client import Counter, Gauge, Histogram

from core import spans

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

REQUESTS = Counter("gateway_requests", "Requests by route and status", ["route", "status"])
REQUEST_SECONDS = Histogram("gateway_request_seconds", "Time of a request", ["route"], buckets=_SECONDS)
STAGE_SECONDS = Histogram(
    "gateway_stage_seconds", "Time of one stage of the request pipeline", ["stage"], buckets=_SECONDS
)
PROBLEMS = Counter("gateway_problems", "Answers that were problems, by code", ["code"])
AUTH_FAILURES = Counter(
    "gateway_auth_failures",
    "Requests without a key (missing), with one that is not valid (wrong), or beyond the limit of failures (limited)",
    ["reason"],
)
SPENT_EPSILON = Counter(
    "gateway_spent_epsilon", "Epsilon spent since this process started", ["tenant", "unit", "outcome"]
)
BUDGET_USED = Gauge(
    "gateway_budget_used_share",
    "Used share of a tenant's account, 1 if it admits nothing more; of the fullest accounts of all tenants",
    ["tenant", "unit"],
)
BUDGETS_EXHAUSTED = Gauge("gateway_budgets_exhausted", "Accounts of tenants that admit nothing more")
REUSED_EPSILON = Counter(
    "gateway_reused_epsilon", "Epsilon that repeats would have cost since this process started", ["tenant", "unit"]
)

UPSTREAM_CALLS = Counter(
    "gateway_upstream_calls",
    "Calls of language models by upstream and outcome: answered, client-error, limited (429), server-error, "
    "unreachable, timeout, invalid, key-refused, abandoned (closed by the gateway or its client), full",
    ["upstream", "outcome"],
)
UPSTREAM_OPEN = Gauge("gateway_upstream_calls_open", "Calls of language models in progress", ["upstream"])
UPSTREAM_FIRST_BYTE_SECONDS = Histogram(
    "gateway_upstream_first_byte_seconds",
    "Time from a call of a language model to the head of its answer",
    ["upstream"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)

LEDGER_DURABLE = Gauge("gateway_ledger_durable", "1 if Redis had the required settings at the last check, else 0")
SEALED_AT = Gauge(
    "gateway_sealed_timestamp_seconds", "When a gateway last completed a sealing round, seconds since 1970"
)
GATEWAYS_PRESENT = Gauge("gateway_gateways_present", "Gateways that serve this ledger, as this one last saw it")
HOLDS_DUTIES = Gauge(
    "gateway_holds_duties", "1 if this gateway seals, expires holds and folds the journal for all gateways, else 0"
)

ALERTS_FIRED = Counter("gateway_alerts_fired", "Alerts that fired, by kind of their rule", ["kind"])
ALERT_DELIVERIES = Counter(
    "gateway_alert_deliveries",
    "Attempts to deliver an alert by outcome: delivered, failed; given-up after the last attempt; dropped "
    "if the outbox of its owner is full",
    ["outcome"],
)

TRACE_SPANS = Counter(
    "gateway_trace_spans",
    "Spans by outcome: exported, export-failed, queue-full, limit (the request had as many as it may)",
    ["outcome"],
)

EVENT_LOOP_LAG = Histogram(
    "gateway_event_loop_lag_seconds",
    "By how much the event loop was late for a task that was due",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)

JOBS = Counter("gateway_jobs", "Jobs that ended on this gateway, by kind and end state", ["kind", "status"])
JOB_SECONDS = Histogram(
    "gateway_job_seconds",
    "Time of a job from its first start to its end",
    ["kind"],
    buckets=(1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600),
)
JOBS_WAITING = Gauge("gateway_jobs_waiting", "Jobs that are queued on this gateway")


class stage:
    """Time one stage of the request pipeline, as a metric and as a span."""

    __slots__ = ("_name", "_span", "_started")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._span = spans.span(self._name)
        self._span.__enter__()
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        _seconds_of_stage(self._name).observe(time.perf_counter() - self._started)
        self._span.__exit__(kind, error, where)


# Looking a metric up by its labels takes as long as counting in it.


@cache
def _seconds_of_stage(name: str) -> Histogram:
    return STAGE_SECONDS.labels(name)


@cache
def requests_of(route: str, status: int) -> Counter:
    """`REQUESTS` of a route, as the gateway declares it, and a status."""
    return REQUESTS.labels(route, str(status))


@cache
def request_seconds_of(route: str) -> Histogram:
    """`REQUEST_SECONDS` of a route, as the gateway declares it."""
    return REQUEST_SECONDS.labels(route)
