"""Jobs: create, list, watch, cancel, fetch what they made. And the domains that domain jobs make.

A tenant's key sees the tenant's jobs; the admin key sees the shared ones, whose domains serve every tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import FileResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from core.errors import JobNotSucceeded, LedgerError, UnknownJob
from core.ledger.jobs import JobRecord, JobStatus
from core.ledger.names import SHARED_OWNER
from service.house import House, house
from service.http.auth import Caller, job_owner, require_tenant
from service.http.body import JsonRoute
from service.http.paging import Paging, paging
from service.http.problems import amount, problem_type
from service.jobs.intakes import DOMAIN, INFILL, Intake
from service.jobs.submit import submit

router = APIRouter(route_class=JsonRoute, tags=["jobs"])

Owner = Annotated[str, Depends(job_owner)]
Here = Annotated[House, Depends(house)]


@router.post(
    "/jobs/domain",
    status_code=202,
    summary="Build a domain pack from public documents",
    response_model=None,
    openapi_extra={"requestBody": DOMAIN.openapi},
)
async def create_domain(request: Request, owner: Owner, here: Here, response: Response) -> dict[str, Any]:
    """JSON, or JSON lines with `?name=`; the same `Idempotency-Key` and body again finds the same job."""
    return await created(request, owner, here, response, DOMAIN)


@router.post(
    "/jobs/infill",
    status_code=202,
    summary="Fine-tune the language model that fills on documents of one's own, masked and filled",
    response_model=None,
    openapi_extra={"requestBody": INFILL.openapi},
)
async def create_infill(
    request: Request, caller: Annotated[Caller, Depends(require_tenant)], here: Here, response: Response
) -> dict[str, Any]:
    """As `POST /jobs/domain`, with a tenant's key alone. Guarantee: none, and it costs no budget."""
    return await created(request, caller.tenant, here, response, INFILL)


async def created(request: Request, owner: str, here: House, response: Response, intake: Intake) -> dict[str, Any]:
    """The answer to a request for a job."""
    job, created = await submit(here, request, owner, intake)
    response.headers["Location"] = f"/jobs/{job.job_id}"
    response.headers["Idempotency-Replayed"] = str(not created).lower()
    return job_block(job)


@router.get("/jobs", summary="The jobs, newest first, page by page")
async def jobs(owner: Owner, here: Here, page: Annotated[Paging, Depends(paging)]) -> dict[str, Any]:
    found = await here.jobs.store.page(owner, cursor=page.cursor, limit=page.limit)
    return {"jobs": [job_block(job) for job in found.jobs], "next_cursor": found.next_cursor}


@router.get("/jobs/{job_id}", summary="One job")
async def one_job(job_id: str, owner: Owner, here: Here) -> dict[str, Any]:
    return job_block(await here.jobs.store.get(owner, job_id))


@router.post("/jobs/{job_id}/cancel", summary="Cancel a job; one that has ended stays what it is")
async def cancel(job_id: str, owner: Owner, here: Here) -> dict[str, Any]:
    return job_block(await here.jobs.cancel(owner, job_id))


async def _found(job_id: str, owner: Owner, here: Here) -> JobRecord:
    """The job, found before a stream begins: a stream has no 404."""
    return await here.jobs.store.get(owner, job_id)


@router.get("/jobs/{job_id}/events", summary="The job's states as they change", response_class=EventSourceResponse)
async def events(
    here: Here,
    found: Annotated[JobRecord, Depends(_found)],
    last_event_id: Annotated[str | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events `progress`, then one named as the end state; ids grow with each change of the job.

    Begins with the present state, unless `Last-Event-ID` is its id. Comments keep an idle connection open.
    """
    told = int(last_event_id) if last_event_id and last_event_id.isdigit() else -1
    job = found
    while True:
        if job.seq != told or job.status.ended:
            told = job.seq
            name = job.status.value if job.status.ended else "progress"
            yield ServerSentEvent(event=name, id=str(job.seq), data=job_block(job))
        if job.status.ended or not await here.jobs.changed():
            return
        try:
            job = await here.jobs.store.get(job.owner, job.job_id)
        except UnknownJob:
            return
        except LedgerError:
            continue  # Redis is away: the stream stays, and tells what it hears when Redis is back


@router.get("/jobs/{job_id}/artifact", summary="What the job made", response_class=FileResponse)
async def artifact(job_id: str, owner: Owner, here: Here) -> FileResponse:
    job = await here.jobs.store.get(owner, job_id)
    path = here.jobs.artifact(job)
    if job.status is not JobStatus.SUCCEEDED or not await asyncio.to_thread(path.is_file):
        raise JobNotSucceeded
    return FileResponse(path, media_type="application/octet-stream", filename=f"{job.label}.safetensors")


@router.get("/jobs/{job_id}/card", summary="What the job made, described in Markdown", response_class=FileResponse)
async def card(job_id: str, owner: Owner, here: Here) -> FileResponse:
    job = await here.jobs.store.get(owner, job_id)
    path = here.jobs.card(job)
    if job.status is not JobStatus.SUCCEEDED or not await asyncio.to_thread(path.is_file):
        raise JobNotSucceeded
    return FileResponse(path, media_type="text/markdown; charset=utf-8", filename=f"{job.label}.md")


@router.get("/domains", summary="The domain packs for sentence-level release: installed, shared and the tenant's own")
async def domains(owner: Owner, here: Here) -> dict[str, Any]:
    if owner == SHARED_OWNER:
        return {"domains": await here.domains.of_owner(owner, "shared")}
    return {"domains": await here.domains.visible(owner)}


@router.delete(
    "/domains/{name}", status_code=204, summary="Delete a domain of the tenant, or with the admin key a shared one"
)
async def remove_domain(name: str, owner: Owner, here: Here) -> Response:
    await here.domains.remove(owner, name)
    return Response(status_code=204)


def job_block(job: JobRecord) -> dict[str, Any]:
    """A job as every answer shows it; `problem` of a failed one, `result` of one that succeeded."""
    block: dict[str, Any] = {
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
        block["metrics"] = job.metrics
    if job.problem is not None:
        block["problem"] = {"type": problem_type(job.problem["code"]), **job.problem}
    if job.result is not None:
        block["result"] = job.result
    return block
