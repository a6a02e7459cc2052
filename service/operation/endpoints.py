"""What is installed, the log of administrative actions, and the state of this gateway, for the operator.

`GET /admin/service` shows workers, queues, throughput, latency and errors of this process since it started, from its
metrics. They name routes, roles and codes, never a tenant or a text.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, NotRequired, cast

from fastapi import APIRouter, Query, Response
from prometheus_client.metrics import MetricWrapperBase
from typing_extensions import TypedDict

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
from service.http.answers import AnswerRoute, doc
from service.http.auth import OPERATOR, READER, JobsCallerDep, ReadCallerDep
from service.operation.health import Readiness, Scrapes, metrics_router
from service.operation.health import router as health_router
from service.parts import Part, Parts
from service.preparation import Preparation
from service.sanitize.fills import TunedModels
from service.sanitize.policies import Policies
from service.vectors.constructions import KINDS, RECIPE
from service.workers import Workers

router = APIRouter(route_class=AnswerRoute, tags=["catalogue"])
operator_router = APIRouter(prefix="/admin", route_class=AnswerRoute, tags=["admin"], dependencies=[OPERATOR])

_PAGE_MAX = 1000  # entries, as of the journals of accounts


class RunningModel(TypedDict):
    """The workers of one role. Its facts are there once a worker was ready; which ones depends on the role."""

    role: Annotated[str, doc("`embed`, `sanitize` or `fill`.")]
    ready: Annotated[bool, doc("Whether a worker is ready.")]
    stage: Annotated[str, doc("How far the workers are, as a word.")]
    encoder: NotRequired[Annotated[dict[str, Any], doc("The encoder: its name, fingerprint, device and speed.")]]
    domains: NotRequired[Annotated[list[str], doc("The domains that are loaded.")]]
    mechanisms: NotRequired[Annotated[list[str], doc("The mechanisms for documents.")]]
    vector_mechanisms: NotRequired[Annotated[list[str], doc("The mechanisms for vectors.")]]
    vector_pack: NotRequired[Annotated[str | None, doc("The public axes and codebooks; null for none.")]]
    unit: NotRequired[Annotated[str, doc("What the mechanisms for documents protect.")]]
    techniques: NotRequired[Annotated[list[str], doc("The techniques of masks.")]]
    fills: NotRequired[Annotated[list[str], doc("The fills.")]]
    infill: NotRequired[Annotated[dict[str, Any], doc("The language model that fills.")]]
    word_vectors: NotRequired[Annotated[dict[str, int], doc("The size of the word vectors.")]]
    word_mechanisms: NotRequired[Annotated[list[str], doc("The mechanisms for words.")]]
    tagger: NotRequired[Annotated[dict[str, Any] | None, doc("The tagger: its name, types and device; null for none.")]]
    entities: NotRequired[Annotated[list[str], doc("The types that are found.")]]
    default_entities: NotRequired[Annotated[list[str], doc("Those of them that a mask has by default.")]]
    thresholds: NotRequired[Annotated[dict[str, float], doc("The least score that is masked, by type.")]]
    allow_lists: NotRequired[Annotated[list[str], doc("The lists of allowed words that the tenant may name.")]]
    versions: NotRequired[Annotated[dict[str, str], doc("The versions of the libraries that recognise.")]]


class FineTunedModel(TypedDict):
    """A fine-tuned model of the tenant. One whose file cannot be used has its first two members only."""

    name: Annotated[str, doc("The name that a request gives as `fill.model`.")]
    usable: Annotated[bool, doc("Whether its file can be used.")]
    documents: NotRequired[Annotated[int, doc("How many documents it was made of.")]]
    rounds: NotRequired[Annotated[int, doc("How often it has read them.")]]
    steps: NotRequired[Annotated[int, doc("How many steps it was trained for.")]]


class ProjectionFacts(TypedDict):
    """The public projections of private vectors."""

    kinds: Annotated[list[str], doc("The kinds.")]
    dimension_max: Annotated[int, doc("The largest dimension before.")]
    output_dimension_max: Annotated[int, doc("The largest dimension after.")]
    location: Annotated[str, doc("The path of their files.")]
    recipe: Annotated[str, doc("How a client computes them itself.")]


class DataTerms(TypedDict):
    """The terms of the data behind a bundled file."""

    what: Annotated[str, doc("What was made of the data.")]
    terms: Annotated[str, doc("What the terms exclude.")]
    instead: Annotated[str, doc("What to use where the terms do not permit the use.")]


class ModelCatalogue(TypedDict):
    """The models that run."""

    models: Annotated[list[RunningModel], doc("The workers, by role.")]
    finetune: Annotated[list[str], doc("The models that `POST /jobs/finetune` trains.")]
    fine_tuned: Annotated[list[FineTunedModel], doc("The tenant's own models.")]
    projections: Annotated[ProjectionFacts, doc("The public projections.")]
    data_terms: Annotated[list[DataTerms], doc("Bundled files whose data exclude or do not permit commercial use.")]


# NOTICE has each source.
_DATA_TERMS: list[DataTerms] = [
    {
        "what": "domain packs, the vector pack and the bundled model that fills",
        "terms": "Research or non-commercial use for some sources; no stated terms for others.",
        "instead": "POST /jobs/domain, the mechanism privunit without pca, a model of your own in INFILL",
    },
    {
        "what": "the bundled tagger of names",
        "terms": "CC BY and CC BY-SA; non-commercial for a part of one source (GUM).",
        "instead": "TAGGER, with a model of your own or off",
    },
    {
        "what": "the bundled encoder",
        "terms": "Apache-2.0; its authors also trained it on MS MARCO (non-commercial research).",
        "instead": "ENCODER_PATH, with a model of your own",
    },
]


class EntityFacts(TypedDict):
    """A type that the technique `entity` finds."""

    name: Annotated[str, doc("The name.")]
    threshold: Annotated[float, doc("The least score that is masked by default.")]
    default: Annotated[bool, doc("Whether a mask has it by default.")]
    languages: Annotated[list[str], doc("The languages in which it is found.")]
    recognisers: Annotated[list[str], doc("What finds it: `pattern`, `tagger` or both.")]


class EntityCatalogue(TypedDict):
    """What the technique `entity` finds."""

    entities: Annotated[list[EntityFacts], doc("The types.")]
    profiles: Annotated[dict[str, list[str]], doc("Named sets of types.")]


@router.get("/models", summary="The models that run, and how")
async def list_models(
    caller: ReadCallerDep,
    engine: Part[Engine],
    policies: Part[Policies],
    settings: Part[Settings],
    tuned: Part[TunedModels],
) -> ModelCatalogue:
    roles = {role: engine.status(role) for role in engine.roles}
    allow_lists = list(policies.allow_lists(caller.tenant))
    return {
        "models": [
            cast(
                RunningModel,
                {"role": role.value, "ready": status.ready, "stage": status.stage, **_facts(status, allow_lists)},
            )
            for role, status in roles.items()
        ],
        "finetune": [BUNDLED, *settings.finetune_models],
        "fine_tuned": cast(list[FineTunedModel], await tuned.of_tenant(caller.tenant)),
        "projections": {
            "kinds": list(KINDS),
            "dimension_max": settings.vector_dimension_max,
            "output_dimension_max": PROJECTED_MAX,
            "location": "/models/projections/{kind}-{dimension}-{output_dimension}",
            "recipe": RECIPE,
        },
        "data_terms": _DATA_TERMS,
    }


@router.delete("/models/fine-tuned/{name}", status_code=204, summary="Delete a fine-tuned model of the tenant")
async def delete_model(name: str, caller: JobsCallerDep, tuned: Part[TunedModels]) -> Response:
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
async def list_entities(workers: Part[Workers]) -> EntityCatalogue:
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


class AuditEntry(TypedDict):
    """An administrative action."""

    n: Annotated[int, doc("Its number, from 1.")]
    at_ms: Annotated[int, doc("When, in milliseconds since the epoch.")]
    by: Annotated[str, doc("Who: `operator`, `cli` or `key:ID`.")]
    action: Annotated[str, doc("What was done.")]
    target: Annotated[str, doc("To what.")]
    details: Annotated[dict[str, Any], doc("With which values; never a secret.")]
    previous: Annotated[str, doc("The MAC of the entry before.")]
    mac: Annotated[str, doc("The MAC of the entry.")]
    body: Annotated[str, doc("What the MAC is of.")]
    genuine: Annotated[bool, doc("False for an entry that the gateway did not write.")]


class AuditPage(TypedDict):
    """A page of the log of administrative actions."""

    entries: Annotated[list[AuditEntry], doc("The entries, oldest first.")]
    next_cursor: Annotated[int | None, doc("The `cursor` of the next page; null on the last one.")]


@operator_router.get("/audit", summary="The log of administrative actions, oldest first, page by page")
async def get_audit_log(
    log: Part[AdminLog],
    cursor: Annotated[int, Query(ge=0, lt=2**53, description="`next_cursor` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1)] = 100,
) -> AuditPage:
    """`genuine` is false for an entry that the gateway did not write. `ledger export --actions` checks the chain."""
    page = await log.page(after=cursor, limit=min(limit, _PAGE_MAX))
    return {"entries": [cast(AuditEntry, asdict(entry)) for entry in page.entries], "next_cursor": page.next_cursor}


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


class ServiceState(TypedDict):
    """How the gateway works, in figures since its start. A row names what it counts, and `count` or times."""

    at_ms: Annotated[int, doc("The time of the answer, in milliseconds since the epoch.")]
    started_ms: Annotated[int, doc("When the gateway started.")]
    workers: Annotated[list[dict[str, Any]], doc("The workers of each role, and their queues.")]
    requests: Annotated[list[dict[str, Any]], doc("The routes, with their answers by status, and times in seconds.")]
    stages: Annotated[list[dict[str, Any]], doc("The stages of a request, with times in seconds.")]
    problems: Annotated[list[dict[str, Any]], doc("The problems that were answered, by code.")]
    auth_failures: Annotated[list[dict[str, Any]], doc("The requests without a valid key, by reason.")]
    jobs: Annotated[dict[str, Any], doc("The jobs that wait, and those that ended, by kind and status.")]
    upstreams: Annotated[list[dict[str, Any]], doc("The calls of language models, by upstream and outcome.")]
    ledger: Annotated[dict[str, Any], doc("Whether the ledger is durable, and when it was last sealed.")]
    event_loop_late_seconds: Annotated[dict[str, Any], doc("How late the event loop was, in seconds.")]


@operator_router.get("/service", summary="Workers, queues, throughput, latency and errors since the gateway's start")
async def get_service(engine: Part[Engine]) -> ServiceState:
    """Times are seconds. `at_most` bounds quantiles from above, and is null beyond the histogram's last bucket.

    A rate is the difference of two answers' counts by that of their `at_ms`.
    """
    statuses = {role.value: engine.status(role) for role in engine.roles}
    figures = await asyncio.to_thread(_figures, statuses)
    return cast(ServiceState, {"at_ms": int(time.time() * 1000), "started_ms": _STARTED_MS, **figures})


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
