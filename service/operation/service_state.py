"""`GET /admin/service`: workers, queues, throughput, latency and errors of this gateway, from its metrics.

The figures are those of this process since it started. They name routes, roles and codes, never a tenant or a text.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from prometheus_client.metrics import MetricWrapperBase

from gpu_workers.engine import task_queue as engine_metrics
from gpu_workers.engine.protocol import Engine, RoleStatus
from service import metrics
from service.http.auth import OPERATOR
from service.parts import Part

router = APIRouter(prefix="/admin", tags=["admin"], dependencies=[OPERATOR])

_STARTED_MS = int(time.time() * 1000)
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
Labels = tuple[str, ...]


@dataclass
class Times:
    """A histogram of seconds. `buckets`: how many were at most each bound."""

    count: int = 0
    total: float = 0.0
    buckets: dict[float, float] = field(default_factory=dict)

    def block(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "mean": self.total / self.count if self.count else None,
            "at_most": {name: self.at_most(share) for name, share in _QUANTILES.items()},
        }

    def at_most(self, share: float) -> float | None:
        """A time that this share did not exceed: the end of a bucket. None beyond the last one, and for no times."""
        ends = (end for end, count in sorted(self.buckets.items()) if count >= share * self.count)
        end = next(ends, math.inf) if self.count else math.inf
        return None if math.isinf(end) else end


@router.get("/service", summary="Workers, queues, throughput, latency and errors since the gateway's start")
async def service(engine: Part[Engine]) -> dict[str, Any]:
    """Times are seconds. `at_most` bounds quantiles from above, and is null beyond the histogram's last bucket.

    A rate is the difference of two answers' counts by that of their `at_ms`.
    """
    statuses = {role.value: engine.status(role) for role in engine.roles}
    figures = await asyncio.to_thread(_figures, statuses)
    return {"at_ms": int(time.time() * 1000), "started_ms": _STARTED_MS, **figures}


def _figures(statuses: Mapping[str, RoleStatus]) -> dict[str, Any]:
    sealed_s = _value(metrics.SEALED_AT)
    return {
        "workers": _workers(statuses),
        "requests": _requests(),
        "stages": [{"stage": stage, "seconds": times.block()} for (stage,), times in _times(metrics.STAGE_SECONDS)],
        "problems": [{"code": code, "count": count} for (code,), count in _counts(metrics.PROBLEMS)],
        "auth_failures": [{"reason": reason, "count": count} for (reason,), count in _counts(metrics.AUTH_FAILURES)],
        "jobs": {
            "waiting": int(_value(metrics.JOBS_WAITING)),
            "ended": [
                {"kind": kind, "status": status, "count": count} for (kind, status), count in _counts(metrics.JOBS)
            ],
        },
        "upstreams": [
            {"upstream": name, "outcome": outcome, "count": count}
            for (name, outcome), count in _counts(metrics.UPSTREAM_CALLS)
        ],
        "ledger": {
            "durable": _value(metrics.LEDGER_DURABLE) == 1,
            "sealed_ms": int(sealed_s * 1000) if sealed_s else None,
        },
        "event_loop_late_seconds": dict(_times(metrics.EVENT_LOOP_LAG)).get((), Times()).block(),
    }


def _workers(statuses: Mapping[str, RoleStatus]) -> list[dict[str, Any]]:
    ready = dict(_counts(engine_metrics.WORKER_READY))
    restarts = dict(_counts(engine_metrics.WORKER_RESTARTS))
    queued, batches = dict(_times(engine_metrics.QUEUE_SECONDS)), dict(_times(engine_metrics.BATCH_SECONDS))
    refused = _counts(engine_metrics.REFUSED)
    return [
        {
            "role": role,
            "ready": status.ready,
            "stage": status.stage,
            "workers_ready": ready.get((role,), 0),
            "restarts": restarts.get((role,), 0),
            "queued": status.queued,
            "queue_seconds": queued.get((role,), Times()).block(),
            "batch_seconds": batches.get((role,), Times()).block(),
            "refused": [{"code": code, "count": count} for (of, code), count in refused if of == role],
        }
        for role, status in statuses.items()
    ]


def _requests() -> list[dict[str, Any]]:
    """One row for each route that was used, with its answers by status."""
    statuses: dict[str, dict[str, int]] = {}
    for (route, status), count in _counts(metrics.REQUESTS):
        statuses.setdefault(route, {})[status] = count
    times = dict(_times(metrics.REQUEST_SECONDS))
    return [
        {"route": route, "statuses": found, "seconds": times.get((route,), Times()).block()}
        for route, found in statuses.items()
    ]


def _counts(metric: MetricWrapperBase) -> list[tuple[Labels, int]]:
    """The values of a counter or a gauge by its labels, in their order."""
    return sorted(
        (tuple(sample.labels.values()), int(sample.value))
        for family in metric.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    )


def _value(metric: MetricWrapperBase) -> float:
    """The value of a gauge without labels."""
    return next(sample.value for family in metric.collect() for sample in family.samples)


def _times(metric: MetricWrapperBase) -> list[tuple[Labels, Times]]:
    """The histograms of a metric by its labels, in their order."""
    found: dict[Labels, Times] = {}
    for sample in (sample for family in metric.collect() for sample in family.samples):
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        times = found.setdefault(tuple(labels.values()), Times())
        if sample.name.endswith("_bucket"):
            times.buckets[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_count"):
            times.count = int(sample.value)
        elif sample.name.endswith("_sum"):
            times.total = sample.value
    return sorted(found.items(), key=lambda row: row[0])
