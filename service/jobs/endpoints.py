"""Jobs: create, list, watch, cancel, download their files.

A tenant's key sees the tenant's jobs; the admin key sees the shared ones, whose results serve every tenant.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, NotRequired, cast

import orjson
from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import FileResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from typing_extensions import TypedDict

from core.errors import JobNotSucceeded, LedgerError, UnknownJob
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient
from core.state.jobs import JobRecord, JobStatus, JobStore
from core.state.keystore import KeyRole
from service.capability import Capability, View
from service.config.settings import Settings
from service.files.stored import OwnDirectory, StoredFiles
from service.http import problems
from service.http.answers import IDEMPOTENT, BudgetAmount, ProblemDocument, doc
from service.http.auth import JobsCallerDep, OwnerDep, log_if_shared
from service.http.body import BodyMemory, JsonRoute
from service.http.exchange import EndlessStreamDep
from service.http.problems import amount, documented, problem_type
from service.http.strict import PagingDep
from service.jobs.attempt import runner_limits
from service.jobs.blobs import JobBlobs
from service.jobs.files import JobFiles
from service.jobs.kind import JobKind, JobKinds
from service.jobs.remote import RemoteStart
from service.jobs.runner import JobRunner
from service.jobs.storage import Storage
from service.jobs.submit import JobSubmission
from service.ledger_connection import tenant_caps
from service.parts import Part, Parts
from service.preparation import Preparation

# the page has no script and loads nothing
_PAGE_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


class Job(TypedDict):
    """A job."""

    job_id: Annotated[str, doc("The id, random.")]
    kind: Annotated[str, doc("`synthesis`, `finetune`, `domain`, `infill`, `release`, `batch` or `evaluation`.")]
    label: Annotated[str, doc("The name that its creator gave.")]
    status: Annotated[str, doc("`queued`, `running`, `paused`, or an end: `succeeded`, `failed` or `cancelled`.")]
    progress: Annotated[float, doc("How much is done, from 0 to 1.")]
    stage: Annotated[str | None, doc("What it does now, as a word; null before it runs.")]
    attempts: Annotated[int, doc("How often its process was started.")]
    cancel_requested: Annotated[bool, doc("Whether it will be cancelled.")]
    created_ms: Annotated[int, doc("When it was created, in milliseconds since the epoch.")]
    started_ms: Annotated[int | None, doc("When it was first started; null before.")]
    ended_ms: Annotated[int | None, doc("When it ended; null before.")]
    reserved: Annotated[BudgetAmount, doc("What is held for it.")]
    spent: Annotated[BudgetAmount, doc("What was charged for it.")]
    metrics: NotRequired[Annotated[dict[str, Any], doc("Public figures of its training; absent before the first.")]]
    problem: NotRequired[Annotated[ProblemDocument, doc("Why it failed; of a failed one.")]]
    result: NotRequired[
        Annotated[dict[str, Any], doc("What it made, by its kind; of one that succeeded, or of a batch.")]
    ]


class JobList(TypedDict):
    """A page of jobs."""

    jobs: Annotated[list[Job], doc("The jobs, newest first.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


def job_block(job: JobRecord) -> Job:
    """A job as every answer shows it; `problem` of a failed one, `result` of one that succeeded."""
    block: Job = {
        "job_id": job.job_id,
        "kind": job.kind,
        "label": job.label,
        "status": job.status.value,
        "progress": job.progress,
        "stage": job.stage,
        "attempts": job.attempts,
        "cancel_requested": job.cancel_requested,
        "created_ms": job.created_ms,
        "started_ms": job.started_ms,
        "ended_ms": job.ended_ms,
        "reserved": amount(job.reserved),
        "spent": amount(job.spent),
    }
    if job.metrics is not None:
        block["metrics"] = dict(job.metrics)
    if job.problem is not None:
        block["problem"] = cast(ProblemDocument, {"type": problem_type(job.problem["code"]), **job.problem})
    if job.result is not None:
        block["result"] = dict(job.result)
    return block


def event_id(block: Job) -> str:
    """The id of the event with this block. It is a function of what the event shows: a count of changes would tell how
    fast the job's process was, which depends on its rows."""
    return hashlib.sha256(orjson.dumps(block)).hexdigest()[:16]


router = APIRouter(route_class=JsonRoute, tags=["jobs"])


def creation_router(parts: Parts) -> APIRouter:
    """`POST /jobs/NAME` for every kind that is uploaded."""
    created = APIRouter(route_class=JsonRoute, tags=["jobs"])
    for kind in (each for each in parts[JobKinds].values() if each.is_uploaded):
        created.add_api_route(
            f"/jobs/{kind.name}",
            _creation(kind),
            methods=["POST"],
            name=f"create_{kind.name}",
            status_code=202,
            summary=kind.summary,
            description=kind.description,
            responses=documented(s507="The upload exceeds the tenant's disk space or the free one."),
            openapi_extra={"requestBody": kind.openapi, **IDEMPOTENT},
        )
    return created


async def _owner(owner: OwnerDep) -> str:
    return owner


async def _tenant(caller: JobsCallerDep) -> str:
    """The owner of a job whose kind the operator cannot create: a tenant."""
    return caller.tenant


def _creation(kind: JobKind) -> Any:
    owner_of = _owner if kind.shared else _tenant

    async def create(
        request: Request,
        submission: Part[JobSubmission],
        log: Part[AdminLog],
        response: Response,
        owner: str = Depends(owner_of),  # a default: an annotation could not name a local variable
    ) -> Job:
        job, created = await submission.submit(request, owner, kind)
        if created:
            await log_if_shared(log, owner, action=f"job.{kind.name}", name=job.job_id)
        response.headers["Location"] = f"/jobs/{job.job_id}"
        response.headers["Idempotency-Replayed"] = str(not created).lower()
        return job_block(job)

    return create


@router.get("/jobs", summary="The jobs, newest first, page by page")
async def list_jobs(owner: OwnerDep, runner: Part[JobRunner], page: PagingDep) -> JobList:
    found = await runner.store.page(owner, cursor=page.cursor, limit=page.limit)
    return {"jobs": [job_block(job) for job in found.jobs], "next_cursor": found.next_cursor}


async def job_of(job_id: str, owner: OwnerDep, runner: Part[JobRunner]) -> JobRecord:
    """The job that a path names, as a dependency: found before a stream begins, which has no 404."""
    return await runner.store.get(owner, job_id)


JobDep = Annotated[JobRecord, Depends(job_of)]


@router.get("/jobs/{job_id}", summary="One job")
async def get_job(job: JobDep) -> Job:
    return job_block(job)


@router.post("/jobs/{job_id}/cancel", summary="Cancel a job; one that has ended stays what it is")
async def cancel_job(job_id: str, owner: OwnerDep, runner: Part[JobRunner], log: Part[AdminLog]) -> Job:
    job = await runner.cancel(owner, job_id)
    await log_if_shared(log, owner, action="job.cancel", name=job.job_id)
    return job_block(job)


@router.post("/jobs/{job_id}/pause", summary="Pause a job; one that has ended stays what it is")
async def pause_job(job_id: str, owner: OwnerDep, runner: Part[JobRunner], log: Part[AdminLog]) -> Job:
    job = await runner.pause(owner, job_id)
    await log_if_shared(log, owner, action="job.pause", name=job.job_id)
    return job_block(job)


@router.post("/jobs/{job_id}/resume", summary="Resume a paused job")
async def resume_job(job_id: str, owner: OwnerDep, runner: Part[JobRunner], log: Part[AdminLog]) -> Job:
    job = await runner.resume(owner, job_id)
    await log_if_shared(log, owner, action="job.resume", name=job.job_id)
    return job_block(job)


@router.get("/jobs/{job_id}/events", summary="The job's states as they change", response_class=EventSourceResponse)
async def job_events(
    runner: Part[JobRunner], job: JobDep, open_: EndlessStreamDep, last_event_id: Annotated[str | None, Header()] = None
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events `progress`, then one named as the end state; the id of an event is a digest of its data.

    Begins with the present state, unless `Last-Event-ID` is its id. Comments keep an idle connection open.

    A stream whose key is revoked or expires ends with an event `problem`, whose data is a problem document.
    """
    sent = last_event_id
    while True:
        block = job_block(job)
        state = event_id(block)
        if state != sent or job.status.ended:
            sent = state
            name = job.status.value if job.status.ended else "progress"
            yield ServerSentEvent(event=name, id=state, data=block)
        if job.status.ended or not await runner.changed():
            return
        if open_.error is not None:
            yield ServerSentEvent(event="problem", data=problems.block_of(open_.error))
            return
        try:
            job = await runner.store.get(job.owner, job.job_id)
        except UnknownJob:
            return
        except LedgerError:
            continue  # Redis is unavailable: the stream stays open and goes on when Redis is back


@router.get("/jobs/{job_id}/artifact", summary="What the job made", response_class=FileResponse)
async def get_artifact(job: JobDep, runner: Part[JobRunner], kinds: Part[JobKinds]) -> FileResponse:
    media_types = kinds[job.kind].artifacts if job.kind in kinds else JobKind.artifacts
    for suffix, media_type in media_types.items():
        path = await runner.output(job, suffix) if job.status is JobStatus.SUCCEEDED else None
        if path is not None:
            return FileResponse(path, media_type=media_type, filename=f"{job.label}{suffix}")
    raise JobNotSucceeded


@router.get("/jobs/{job_id}/report", summary="A page about what the job made", response_class=FileResponse)
async def get_report(job: JobDep, runner: Part[JobRunner]) -> FileResponse:
    path = await existing(job, runner, ".html")
    return FileResponse(path, media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)


@router.get("/jobs/{job_id}/manifest", summary="What a bulk release has written", response_class=FileResponse)
async def get_manifest(job: JobDep, runner: Part[JobRunner]) -> FileResponse:
    return FileResponse(await existing(job, runner, ".json"), media_type="application/json")


@router.delete(
    "/jobs/{job_id}/artifact", status_code=204, summary="Delete what the job made, with its card; frees disk space"
)
async def delete_artifact(job: JobDep, runner: Part[JobRunner], log: Part[AdminLog]) -> Response:
    if not await runner.remove_outputs(job):
        raise JobNotSucceeded
    await log_if_shared(log, job.owner, action="job.artifact.delete", name=job.job_id)
    return Response(status_code=204)


@router.get("/jobs/{job_id}/card", summary="What the job made, described in Markdown", response_class=FileResponse)
async def get_card(job: JobDep, runner: Part[JobRunner]) -> FileResponse:
    path = await existing(job, runner, ".md")
    return FileResponse(path, media_type="text/markdown; charset=utf-8", filename=f"{job.label}.md")


async def existing(job: JobRecord, runner: JobRunner, suffix: str) -> Path:
    """A local copy of the file that the job has made. Raises JobNotSucceeded for a job that has not succeeded, or whose
    file is no longer kept; BlobMissing, BlobCorrupt, StoreUnavailable."""
    found = await runner.output(job, suffix) if job.status is JobStatus.SUCCEEDED else None
    if found is None:
        raise JobNotSucceeded
    return found


def _store(parts: Parts) -> JobStore:
    settings = parts[Settings]
    return JobStore(
        parts[LedgerClient],
        gateway=secrets.token_hex(8),
        retention_ms=int(settings.job_retention_s * 1000),
        tombstone_ttl_ms=int(settings.tombstone_retention_s * 1000),
        caps=tenant_caps(settings),
    )


def _runner(parts: Parts) -> JobRunner:
    stored = parts[StoredFiles]
    return JobRunner(
        parts[JobStore],
        JobFiles(parts[OwnDirectory].path, parts[MasterKey], parts[Storage]),
        JobBlobs(stored.store, parts[MasterKey]),
        stored,
        parts[JobKinds],
        ledger=parts[Ledger],
        limits=runner_limits(parts[Settings]),
        elsewhere=parts.find(RemoteStart),
    )


def _submission(parts: Parts) -> JobSubmission:
    return JobSubmission(
        parts[Settings],
        ledger=parts[Ledger],
        master_key=parts[MasterKey],
        runner=parts[JobRunner],
        body_memory=parts[BodyMemory],
        preparation=parts[Preparation],
    )


CAPABILITY = Capability(
    name="jobs",
    routers=[creation_router, router],
    services={JobStore: _store, JobRunner: _runner, JobSubmission: _submission},
    views=[View(130, "jobs", "Jobs", "What runs, how far is it, and what did it cost?", KeyRole.JOBS, shared=True)],
)
