"""What is installed, the log of administrative actions, and the state of this gateway, for the operator.

`GET /admin/service` shows workers, queues, throughput, latency and errors of this process since it started, from its
metrics. They name routes, roles and codes, never a tenant or a text.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from prometheus_client.metrics import MetricWrapperBase

from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.transitions import Ledger
from core.mechanisms.vectors.spec import PROJECTED_MAX
from core.state.keystore import KeyRole
from core.text.languages import ENGLISH, EVERY_LANGUAGE_ENTITIES, LANGUAGES
from core.text.policy import ENTITIES, PROFILES, EntityRow, supported
from gpu_workers.engine import task_queue as engine_metrics
from gpu_workers.engine.protocol import RoleStatus
from gpu_workers.engine.task_queue import Engine
from gpu_workers.finetune.spec import BUNDLED
from service import metrics
from service.capability import Capability, View
from service.config.settings import Settings
from service.http.auth import OPERATOR, READER, JobsCallerDep, ReadCallerDep
from service.operation.health import Readiness, Scrapes, metrics_router
from service.operation.health import router as health_router
from service.parts import Part, Parts
from service.preparation import Preparation
from service.sanitize.fills import TunedModels
from service.sanitize.policies import Policies
from service.vectors.constructions import KINDS, RECIPE
from service.workers import Workers

router = APIRouter(tags=["catalogue"])
operator_router = APIRouter(prefix="/admin", tags=["admin"], dependencies=[OPERATOR])

_PAGE_MAX = 1000  # entries, as of the journals of accounts


@router.get("/models", summary="The models that run, and how")
async def models(
    caller: ReadCallerDep,
    engine: Part[Engine],
    policies: Part[Policies],
    settings: Part[Settings],
    tuned: Part[TunedModels],
) -> dict[str, Any]:
    roles = {role: engine.status(role) for role in engine.roles}
    allow_lists = list(policies.allow_lists(caller.tenant))
    return {
        "models": [
            {"role": role.value, "ready": status.ready, "stage": status.stage, **_facts(status, allow_lists)}
            for role, status in roles.items()
        ],
        "finetune": [BUNDLED, *settings.finetune_models],
        "fine_tuned": await tuned.of_tenant(caller.tenant),
        "projections": {
            "kinds": list(KINDS),
            "dimension_max": settings.vector_dimension_max,
            "output_dimension_max": PROJECTED_MAX,
            "location": "/models/projections/{kind}-{dimension}-{output_dimension}",
            "recipe": RECIPE,
        },
    }


@router.delete("/models/fine-tuned/{name}", status_code=204, summary="Delete a fine-tuned model of the tenant")
async def remove_model(name: str, caller: JobsCallerDep, tuned: Part[TunedModels]) -> Response:
    await tuned.remove(caller.tenant, name)
    return Response(status_code=204)


def _facts(status: RoleStatus, allow_lists: list[str]) -> dict[str, Any]:
    """What a worker reports of itself, without the allow lists of other tenants."""
    facts = status.facts.as_json() if status.facts else {}
    if "allow_lists" in facts:
        facts["allow_lists"] = allow_lists
    return facts


def _recognisers(entity: EntityRow, tagged: bool) -> list[str]:
    return [*(["pattern"] if entity.module else []), *(["tagger"] if tagged else [])]


@router.get("/entities", summary="What the entity technique recognises", dependencies=[READER])
async def entities(workers: Part[Workers]) -> dict[str, Any]:
    rows = [(name, ENTITIES[name]) for name in supported(workers.tagger_types)]
    return {
        "entities": [
            {
                "name": name,
                "threshold": entity.threshold,
                "default": entity.default,
                "languages": list(LANGUAGES) if name in EVERY_LANGUAGE_ENTITIES else [ENGLISH],
                "recognisers": _recognisers(entity, name in workers.tagger_types),
            }
            for name, entity in rows
        ],
        "profiles": {name: list(members) for name, members in PROFILES.items()},
    }


@operator_router.get("/audit", summary="The log of administrative actions, oldest first, page by page")
async def audit(
    log: Part[AdminLog],
    cursor: Annotated[int, Query(ge=0, lt=2**53, description="`next_cursor` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1)] = 100,
) -> dict[str, Any]:
    """`genuine` is false for an entry that the gateway did not write. `ledger export --actions` checks the chain."""
    page = await log.page(after=cursor, limit=min(limit, _PAGE_MAX))
    return {"entries": [asdict(entry) for entry in page.entries], "next_cursor": page.next_cursor}


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


@operator_router.get("/service", summary="Workers, queues, throughput, latency and errors since the gateway's start")
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


def _readiness(parts: Parts) -> Readiness:
    return Readiness(parts[Engine], parts[Ledger], cache_s=parts[Settings].ready_cache_s)


CAPABILITY = Capability(
    name="operation",
    routers=[router],
    operator_routers=[metrics_router, operator_router],
    common_routers=[health_router],
    services={Readiness: _readiness, Scrapes: lambda parts: Scrapes(parts[Preparation])},
    views=[
        View(10, "service", "Service", "Does the gateway work, and how fast?", None),
        View(30, "audit", "Audit log", "Who changed tenants and keys, and when?", None),
        View(160, "catalogue", "Policies and models", "What is installed, and which rules apply?", KeyRole.READ),
    ],
)
