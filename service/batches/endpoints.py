"""`/v1/files` and `/v1/batches`: the Batch API in OpenAI's shapes, so that its clients work by a change of their URL.

Guarantee: that of the endpoint that each line names. A batch is a job of kind `batch` (`service/batches/task.py`).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from core.errors import InvalidInput, RoleMissing
from core.ledger.reuse import Attempts
from core.master_key import MasterKey
from core.redis.client import LedgerClient
from core.state.jobs import JobStatus
from core.state.keystore import KeyRole, KeyStore
from service.admission import LoadLimits
from service.batches.files import BatchFile, BatchFiles, made_id
from service.batches.rows import ERROR, OUTPUT
from service.batches.service import PREFIX, Batch, Batches, BatchKind, BatchTerms
from service.batches.task import BatchParts
from service.capability import Capability
from service.config.settings import Settings
from service.files.stored import OwnDirectory, StoredFiles
from service.http.answers import IDEMPOTENT, doc
from service.http.auth import JobsCallerDep
from service.http.body import JsonRoute, json_limits
from service.http.local_calls import LocalCalls
from service.http.ndjson import LineStream
from service.http.strict import AtMost, Strict
from service.jobs.files import JOBS_DIR
from service.jobs.runner import JobRunner
from service.jobs.storage import Storage
from service.jobs.submit import JobSubmission
from service.parts import Part, Parts
from service.preparation import Preparation

router = APIRouter(prefix="/v1", route_class=JsonRoute, tags=["OpenAI-compatible"])

HEADERS = {"Privacy-Policy": 64, "Privacy-Conversation": 256, "Privacy-Subject": 256}  # of all lines; characters
_FORM = {
    "type": "object",
    "required": ["purpose", "file"],
    "properties": {
        "purpose": {"type": "string", "enum": ["batch"]},
        "file": {"type": "string", "format": "binary", "description": "JSON lines."},
        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
        "expires_after[seconds]": {"type": "integer", "minimum": 3600},
    },
}
_UPLOAD = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}}
_Id = Annotated[str, StringConstraints(min_length=1, max_length=64)]
_Limit = Annotated[int, Query(ge=1, le=100)]


class BatchRequest(Strict):
    """Body of `POST /v1/batches`."""

    input_file_id: _Id = Field(description="An uploaded file: a request in each line.")
    endpoint: Literal["/v1/embeddings", "/v1/chat/completions", "/v1/responses"]
    completion_window: Literal["24h"]
    metadata: (
        Annotated[
            dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]],
            AtMost(16),
        ]
        | None
    ) = None


class OpenAIFile(TypedDict):
    """A file of batches, in OpenAI's shape."""

    id: Annotated[str, doc("The id, random.")]
    object: Annotated[str, doc("Always `file`.")]
    bytes: Annotated[int, doc("Its size.")]
    created_at: Annotated[int, doc("When it was stored, in seconds since the epoch.")]
    expires_at: Annotated[int | None, doc("When it is removed, in seconds since the epoch.")]
    filename: Annotated[str, doc("The name that its upload gave.")]
    purpose: Annotated[str, doc("`batch` of an upload, or `batch_output`.")]
    status: Annotated[str, doc("Always `processed`.")]


class OpenAIFiles(TypedDict):
    """A page of files."""

    object: Annotated[str, doc("Always `list`.")]
    data: Annotated[list[OpenAIFile], doc("The files, newest first.")]
    has_more: Annotated[bool, doc("Whether there are more.")]
    first_id: Annotated[str | None, doc("The id of the first one; null of an empty page.")]
    last_id: Annotated[str | None, doc("The `after` of the next page; null of an empty page.")]


class OpenAIDeleted(TypedDict):
    """A file that was deleted."""

    id: Annotated[str, doc("The id.")]
    object: Annotated[str, doc("Always `file`.")]
    deleted: Annotated[bool, doc("Always true.")]


class OpenAIBatchError(TypedDict):
    """Why a batch failed."""

    code: Annotated[str, doc("A fixed word.")]
    message: Annotated[str, doc("A fixed sentence.")]
    param: Annotated[None, doc("Always null.")]
    line: Annotated[int | None, doc("The line of the input file, from 1; null where it is not about one.")]


class OpenAIBatchErrors(TypedDict):
    """Why a batch failed, as a list of one."""

    object: Annotated[str, doc("Always `list`.")]
    data: Annotated[list[OpenAIBatchError], doc("The first error.")]


class OpenAICounts(TypedDict):
    """The requests of a batch."""

    total: Annotated[int, doc("The lines of the file; 0 until they were validated.")]
    completed: Annotated[int, doc("Those in the output file.")]
    failed: Annotated[int, doc("Those in the error file.")]


class OpenAIBatch(TypedDict):
    """A batch, in OpenAI's shape. Times are seconds since the epoch, null before."""

    id: Annotated[str, doc("The id: `batch_` and that of its job.")]
    object: Annotated[str, doc("Always `batch`.")]
    endpoint: Annotated[str, doc("The endpoint of every line.")]
    errors: Annotated[OpenAIBatchErrors | None, doc("Why it failed; null otherwise.")]
    input_file_id: Annotated[str, doc("The file that it was created from.")]
    completion_window: Annotated[str, doc("Always `24h`.")]
    status: Annotated[str, doc("`validating`, `in_progress`, `finalizing`, `cancelling`, or an end.")]
    output_file_id: Annotated[str | None, doc("The answers, once it has ended; null where there are none.")]
    error_file_id: Annotated[str | None, doc("The refusals, once it has ended; null where there are none.")]
    created_at: Annotated[int, doc("When it was created.")]
    in_progress_at: Annotated[int | None, doc("When it was first started.")]
    expires_at: Annotated[int, doc("When the lines that are not done expire.")]
    finalizing_at: Annotated[int | None, doc("When it ended by itself.")]
    completed_at: Annotated[int | None, doc("When it ended, of one that completed.")]
    failed_at: Annotated[int | None, doc("When it ended, of one that failed.")]
    expired_at: Annotated[int | None, doc("When it ended, of one that expired.")]
    cancelled_at: Annotated[int | None, doc("When it ended, of one that was cancelled.")]
    request_counts: Annotated[OpenAICounts, doc("Its requests.")]
    metadata: Annotated[dict[str, str] | None, doc("What its creator gave.")]


class OpenAIBatches(TypedDict):
    """A page of batches."""

    object: Annotated[str, doc("Always `list`.")]
    data: Annotated[list[OpenAIBatch], doc("The batches, newest first.")]
    has_more: Annotated[bool, doc("Whether there are more.")]
    first_id: Annotated[str | None, doc("The id of the first one; null of an empty page.")]
    last_id: Annotated[str | None, doc("The `after` of the next page; null of an empty page.")]


def _file(file: BatchFile) -> OpenAIFile:
    ends_ms = None if file.entry is None else file.entry.ends_ms
    return {
        "id": file.file_id,
        "object": "file",
        "bytes": file.size,
        "created_at": file.created_s,
        "expires_at": None if ends_ms is None else ends_ms // 1000,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
    }


def _batch(batch: Batch) -> OpenAIBatch:
    job, status, counts = batch.job, batch.status, batch.counts
    ended = None if job.ended_ms is None else job.ended_ms // 1000
    has_files = job.status.ended and job.result is not None
    problem = job.problem if job.status is JobStatus.FAILED else None
    errors: OpenAIBatchErrors | None = None
    if problem is not None:
        message, line = problem.get("detail") or problem["title"], problem.get("line")
        error: OpenAIBatchError = {"code": problem["reason"], "message": message, "param": None, "line": line}
        errors = {"object": "list", "data": [error]}
    return {
        "id": f"{PREFIX}{job.job_id}",
        "object": "batch",
        "endpoint": batch.terms.endpoint,
        "errors": errors,
        "input_file_id": batch.terms.input_file_id,
        "completion_window": "24h",
        "status": status,
        "output_file_id": made_id(job.job_id, OUTPUT) if has_files and counts["completed"] else None,
        "error_file_id": made_id(job.job_id, ERROR) if has_files and counts["failed"] else None,
        "created_at": job.created_ms // 1000,
        "in_progress_at": None if job.started_ms is None else job.started_ms // 1000,
        "expires_at": batch.expires_s,
        "finalizing_at": ended if job.status is JobStatus.SUCCEEDED else None,
        "completed_at": ended if status == "completed" else None,
        "failed_at": ended if status == "failed" else None,
        "expired_at": ended if status == "expired" else None,
        "cancelled_at": ended if status == "cancelled" else None,
        "request_counts": {"total": counts["total"], "completed": counts["completed"], "failed": counts["failed"]},
        "metadata": None if batch.terms.metadata is None else dict(batch.terms.metadata),
    }


def _page(rows: list[Any], *, has_more: bool) -> Any:
    ids = [row["id"] for row in rows] or [None]
    return {"object": "list", "data": rows, "has_more": has_more, "first_id": ids[0], "last_id": ids[-1]}


@router.post("/files", summary="Upload the requests of a batch, as JSON lines", openapi_extra=_UPLOAD)
async def create_file(request: Request, caller: JobsCallerDep, files: Part[BatchFiles]) -> OpenAIFile:
    return _file(await files.receive(caller.tenant, request))


@router.get("/files", summary="The files of batches, newest first, page by page")
async def list_files(
    caller: JobsCallerDep,
    files: Part[BatchFiles],
    after: _Id | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    purpose: Annotated[str | None, Query(max_length=64)] = None,
    order: Literal["asc", "desc"] = "desc",
) -> OpenAIFiles:
    found = [file for file in await files.list(caller.tenant) if purpose in (None, file.purpose)]
    if order == "asc":
        found.reverse()
    if after is not None:
        before = await files.get(caller.tenant, after)
        found = found[[file.file_id for file in found].index(before.file_id) + 1 :] if before in found else []
    page: OpenAIFiles = _page([_file(file) for file in found[:limit]], has_more=len(found) > limit)
    return page


@router.get("/files/{file_id}", summary="One file of batches")
async def get_file(file_id: str, caller: JobsCallerDep, files: Part[BatchFiles]) -> OpenAIFile:
    return _file(await files.get(caller.tenant, file_id))


@router.get("/files/{file_id}/content", summary="What a file of batches holds", response_class=StreamingResponse)
async def get_file_content(
    file_id: str, caller: JobsCallerDep, files: Part[BatchFiles], settings: Part[Settings]
) -> Response:
    chunks = await files.content(caller.tenant, await files.get(caller.tenant, file_id))
    return LineStream(_read(chunks), idle_s=settings.stream_idle_s, media_type="application/octet-stream")


async def _read(chunks: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    while chunk := await asyncio.to_thread(next, chunks, b""):
        yield chunk


@router.delete("/files/{file_id}", summary="Delete a file of batches; batches that were created from it go on")
async def delete_file(file_id: str, caller: JobsCallerDep, files: Part[BatchFiles]) -> OpenAIDeleted:
    await files.delete(caller.tenant, file_id)
    return {"id": file_id, "object": "file", "deleted": True}


@router.post("/batches", summary="Create a batch of requests, in OpenAI's shape", openapi_extra=IDEMPOTENT)
async def create_batch(
    body: BatchRequest, request: Request, caller: JobsCallerDep, batches: Part[Batches]
) -> OpenAIBatch:
    """Each line is a request of the endpoint, as the caller of the batch. The headers `Privacy-Policy`,
    `Privacy-Conversation`, `Privacy-Subject`, `X-Purpose` and `X-Recipient` apply to every line."""
    if KeyRole.RELEASE not in caller.roles:  # else each line would be refused by its endpoint
        raise RoleMissing(role=KeyRole.RELEASE.value)
    headers = {name: text for name in HEADERS if (text := request.headers.get(name)) is not None}
    for name, text in headers.items():
        if len(text) > HEADERS[name]:
            raise InvalidInput(f"{name} has at most {HEADERS[name]} characters", field=name)
    terms = BatchTerms(body.endpoint, body.input_file_id, body.metadata)
    return _batch(await batches.create(request, caller, terms, headers))


@router.get("/batches", summary="The batches, newest first, page by page")
async def list_batches(
    caller: JobsCallerDep, batches: Part[Batches], after: _Id | None = None, limit: _Limit = 20
) -> OpenAIBatches:
    found, has_more = await batches.list(caller.tenant, after=after, limit=limit)
    page: OpenAIBatches = _page([_batch(batch) for batch in found], has_more=has_more)
    return page


@router.get("/batches/{batch_id}", summary="One batch")
async def get_batch(batch_id: str, caller: JobsCallerDep, batches: Part[Batches]) -> OpenAIBatch:
    return _batch(await batches.get(caller.tenant, batch_id))


@router.post("/batches/{batch_id}/cancel", summary="Cancel a batch; what it has done stands")
async def cancel_batch(batch_id: str, caller: JobsCallerDep, batches: Part[Batches]) -> OpenAIBatch:
    return _batch(await batches.cancel(caller.tenant, batch_id))


def _batch_parts(parts: Parts) -> BatchParts:
    settings = parts[Settings]
    return BatchParts(
        parts[LocalCalls],
        parts[KeyStore],
        parts[LoadLimits],
        parts[Storage],
        parts[Preparation],
        json_limits(settings),
        settings.body_bytes_max,
    )


def _kind(parts: Parts) -> BatchKind:
    return BatchKind(lambda: _batch_parts(parts), serves=parts[Settings].serves)


def _files(parts: Parts) -> BatchFiles:
    return BatchFiles(
        parts[Settings],
        stored=parts[StoredFiles],
        storage=parts[Storage],
        master_key=parts[MasterKey],
        folder=parts[OwnDirectory].path / JOBS_DIR,
    )


def _batches(parts: Parts) -> Batches:
    return Batches(
        parts[Settings],
        kind=parts[BatchKind],
        files=parts[BatchFiles],
        stored=parts[StoredFiles],
        runner=parts[JobRunner],
        submission=parts[JobSubmission],
        attempts=Attempts(parts[LedgerClient], parts[MasterKey]),
    )


CAPABILITY = Capability(
    name="batches",
    routers=[router],
    services={BatchKind: _kind, BatchFiles: _files, Batches: _batches},
    job_kinds=lambda parts: [parts[BatchKind]],
)
