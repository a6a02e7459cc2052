"""How a job comes in: the body goes to one encrypted file while it is received, then the job is created in Redis.

The job's id is made from the caller's `Idempotency-Key`, so the same key finds the same job, and nobody can guess
another's. A crash between the two steps leaves a folder without a job, which the next start removes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from core.errors import BadCorpus, ClientGone, ReleaseInFlight, UnknownJob
from core.ledger.jobs import JobRecord
from service.body import is_json, nesting
from service.house import House
from service.jobs.files import Incoming
from service.jobs.intakes import Intake
from service.middleware import is_json_lines
from service.release import idempotency_key
from service.strict import Strict

_WRITE_BYTES = 1024 * 1024


async def submit(here: House, request: Request, owner: str, intake: Intake) -> tuple[JobRecord, bool]:
    """The job that the request made, or made before under the same key, and whether it is new.

    Raises InvalidInput, BadCorpus (empty), QueueFull, JobQuotaExceeded, IdempotencyConflict, ReleaseInFlight,
    LedgerUnavailable; HTTPException 400 and 415; RequestValidationError.
    """
    key = idempotency_key(request)
    request.state.headers["Idempotency-Key"] = key
    job_id = here.master_key.job_claim(owner=owner, route=f"/jobs/{intake.kind}", key=key)
    streamed = is_json_lines(request.headers.get("content-type", ""))
    if not streamed and not is_json(request.headers.get("content-type", "")):
        raise HTTPException(415)
    try:
        await here.jobs.store.get(owner, job_id)
    except UnknownJob:
        await here.jobs.store.check_room(owner, open_max=here.settings.jobs_per_tenant_max)
    with here.jobs.receiving(job_id) as incoming:
        receive = _json_lines if streamed else _json
        fields = await receive(here, request, owner, intake, incoming)
        if incoming.received == 0:
            raise BadCorpus("The corpus is empty.", reason="empty", count=0)
        return await _create(here, owner, job_id, intake.kind, fields, incoming)


async def _create(
    here: House, owner: str, job_id: str, kind: str, fields: Mapping[str, Any], incoming: Incoming
) -> tuple[JobRecord, bool]:
    """From a received input to a queued job. A job that charges reserves before this and passes `reserved`."""
    claim = await asyncio.to_thread(incoming.finish, fields)
    store = here.jobs.store
    terms = {"kind": kind, "label": fields["name"], "claim": claim, "open_max": here.settings.jobs_per_tenant_max}
    try:
        await store.get(owner, job_id)
    except UnknownJob:
        if not await asyncio.to_thread(incoming.keep):
            raise ReleaseInFlight from None
        try:
            job, created = await store.create(owner, job_id, **terms)
        except Exception:
            await _withdraw(here, owner, job_id)
            raise
        if created:
            here.jobs.enqueue(job)
        else:
            here.jobs.discard(job_id)  # the job had ended, else its folder would have been there
        return job, created
    return await store.create(owner, job_id, **terms)  # tells the same job, or that the body was another


async def _withdraw(here: House, owner: str, job_id: str) -> None:
    """Remove the files of a job that was not created. When Redis cannot say whether it was, the next start decides."""
    try:
        await here.jobs.store.get(owner, job_id)
    except UnknownJob:
        here.jobs.discard(job_id)


async def _json(here: House, request: Request, owner: str, intake: Intake, incoming: Incoming) -> Mapping[str, Any]:
    raw = await request.body()

    def parsed() -> dict[str, Any]:
        if nesting(raw) > here.settings.json_depth_max:
            raise HTTPException(400)
        try:
            body = intake.body.model_validate(orjson.loads(raw))
        except orjson.JSONDecodeError:
            raise HTTPException(400) from None
        except ValidationError as error:
            raise _refused(error, "body") from None
        body = intake.settled(here, owner, body)
        for row in intake.rows(body):
            incoming.write(orjson.dumps(row) + b"\n")
        stored: dict[str, Any] = body.model_dump(include=set(intake.fields.model_fields))
        return stored

    return await asyncio.to_thread(parsed)  # up to 64 MiB: nobody waits for it


async def _json_lines(
    here: House, request: Request, owner: str, intake: Intake, incoming: Incoming
) -> Mapping[str, Any]:
    """Write the rows as they come; what is wrong with one of them is a problem of the job."""
    try:
        fields = intake.fields.model_validate(_from_query(request, intake.fields))
    except ValidationError as error:
        raise _refused(error, "query") from None
    stored: dict[str, Any] = intake.settled(here, owner, fields).model_dump()
    waiting = bytearray()
    try:
        async for chunk in request.stream():
            waiting += chunk
            if len(waiting) >= _WRITE_BYTES:
                await asyncio.to_thread(incoming.write, bytes(waiting))
                waiting.clear()
    except ClientDisconnect:
        raise ClientGone from None
    if waiting:
        await asyncio.to_thread(incoming.write, bytes(waiting))
    return stored


def _from_query(request: Request, fields: type[Strict]) -> dict[str, Any]:
    """The query's members: text as it stands, anything else as JSON."""
    values: dict[str, Any] = dict(request.query_params)
    for name, field in fields.model_fields.items():
        if name in values and field.annotation not in (str, str | None):
            with contextlib.suppress(orjson.JSONDecodeError):  # what is no JSON is refused as the text that it is
                values[name] = orjson.loads(values[name])
    return values


def _refused(error: ValidationError, part: str) -> RequestValidationError:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return RequestValidationError([entry | {"loc": (part, *entry["loc"])} for entry in found])
