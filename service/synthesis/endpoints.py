"""Synthetic rows: the job that makes their source, and what can be had of it afterwards at no cost.

Guarantee: (epsilon, delta)-DP for replacing one record, once a job, on the tenant's record account. Samples and the
report are post-processing of what the job released.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse
from pydantic import Field

from core.errors import InvalidInput, JobNotSucceeded
from core.ledger.jobs import JobRecord, JobStatus
from service.house import House, house
from service.http.auth import Caller, job_owner, require_tenant
from service.http.body import JsonRoute
from service.http.ndjson import MEDIA_TYPE, LineStream
from service.http.strict import Strict
from service.jobs.endpoints import created
from service.synthesis.job_kind import SYNTHESIS
from service.synthesis.rows import RowText, open_rows

router = APIRouter(route_class=JsonRoute, tags=["jobs"])

Owner = Annotated[str, Depends(job_owner)]
Here = Annotated[House, Depends(house)]

_BLOCK_NUMBERS = 20_000  # drawn and written at once: some 10 to 20 milliseconds of the front end
# the page has no script and asks nobody for anything
_PAGE_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class SampleRequest(Strict):
    """Body of `POST /jobs/{job_id}/sample`."""

    rows: int | None = Field(None, ge=1, description="Default: the table's, as far as it was public or released.")
    format: Literal["jsonl", "csv"] = "jsonl"


@router.post(
    "/jobs/synthesis",
    status_code=202,
    summary="Make synthetic rows of a private table, and a file that makes more of them",
    response_model=None,
    openapi_extra={"requestBody": SYNTHESIS.openapi},
)
async def create_synthesis(
    request: Request, caller: Annotated[Caller, Depends(require_tenant)], here: Here, response: Response
) -> dict[str, Any]:
    """As `POST /jobs/domain`, with a tenant's key alone. Holds its cost now and spends it when it draws its noise."""
    return await created(request, caller.tenant, here, response, SYNTHESIS)


@router.post("/jobs/{job_id}/sample", summary="Synthetic rows, as many as asked for; costs nothing")
async def sample(job_id: str, body: SampleRequest, owner: Owner, here: Here) -> Response:
    """JSON lines, or CSV with a header; streamed."""
    job = await _succeeded(here, owner, job_id)
    count = body.rows or min(int((job.result or {})["rows"]), here.settings.synthesis_sample_rows_max)
    if count > here.settings.synthesis_sample_rows_max:
        raise InvalidInput(f"at most {here.settings.synthesis_sample_rows_max} rows", field="rows")
    dimension = (job.result or {})["dimension"]
    try:
        rows = await asyncio.to_thread(open_rows, here.jobs.artifact(job), dimension, body.format)
    except ValueError:
        raise JobNotSucceeded("The artifact is gone or its file is broken.") from None
    media_type = MEDIA_TYPE if body.format == "jsonl" else "text/csv; charset=utf-8"
    return LineStream(_written(here, rows, count), idle_s=here.settings.stream_idle_s, media_type=media_type)


async def _written(here: House, rows: RowText, count: int) -> AsyncGenerator[bytes, None]:
    yield rows.head()
    step = max(1, _BLOCK_NUMBERS // len(rows.declared.schema.names))
    for start in range(0, count, step):
        async with here.sampling:
            block = await asyncio.to_thread(rows.drawn, min(step, count - start))
        yield block


@router.get("/jobs/{job_id}/report", summary="A page about the rows; costs nothing", response_class=FileResponse)
async def report(job_id: str, owner: Owner, here: Here) -> FileResponse:
    path = here.jobs.report(await _succeeded(here, owner, job_id))
    if not await asyncio.to_thread(path.is_file):
        raise JobNotSucceeded
    return FileResponse(path, media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)


async def _succeeded(here: House, owner: str, job_id: str) -> JobRecord:
    """A synthesis that has an artifact. Raises UnknownJob, InvalidInput for another kind of job, JobNotSucceeded."""
    job = await here.jobs.store.get(owner, job_id)
    if job.kind != SYNTHESIS.kind:
        raise InvalidInput("only a synthesis makes rows", field="job_id")
    if job.status is not JobStatus.SUCCEEDED:
        raise JobNotSucceeded
    return job
