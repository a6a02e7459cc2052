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

from core.amounts import Amount
from core.errors import BadCorpus, ClientGone, LedgerError, ReleaseInFlight, UnknownJob
from core.ledger.jobs import JobHold, JobRecord
from core.ledger.records import Charge, Replay
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
    LedgerUnavailable; for a job that charges, what `Ledger.reserve` raises; HTTPException 400 and 415;
    RequestValidationError.
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
        return await _create(here, owner, job_id, intake, fields, incoming, key=key)


async def _create(
    here: House,
    owner: str,
    job_id: str,
    intake: Intake,
    fields: Mapping[str, Any],
    incoming: Incoming,
    *,
    key: str,
) -> tuple[JobRecord, bool]:
    """From a received input to a queued job. A job that charges holds its cost first, and owns that hold."""
    price = await intake.price(here, fields)
    claim = await asyncio.to_thread(incoming.finish, fields if price is None else {**fields, **price.fields})
    store = here.jobs.store
    terms = {
        "kind": intake.kind,
        "label": fields["name"],
        "claim": claim,
        "open_max": here.settings.jobs_per_tenant_max,
    }
    try:
        await store.get(owner, job_id)
    except UnknownJob:
        if not await asyncio.to_thread(incoming.keep):
            raise ReleaseInFlight from None
        hold = None
        try:
            if price is not None:
                hold = await _held(here, owner, price.charge, intake, key=key, claim=claim)
            job, created = await store.create(owner, job_id, hold=hold, **terms)
        except Exception:
            await _withdraw(here, owner, job_id, hold)
            raise
        if created:
            here.jobs.enqueue(job)
        else:
            here.jobs.discard(job_id)  # the job had ended, else its folder would have been there
            await _refund(here, owner, hold)
        return job, created
    return await store.create(owner, job_id, **terms)  # tells the same job, or that the body was another


async def _held(here: House, owner: str, charge: Charge, intake: Intake, *, key: str, claim: str) -> JobHold:
    """The job's cost, held. Until the job owns it the hold ends as a request's does: a crash in between spends it."""
    outcome = await here.ledger.reserve(
        owner,
        [charge],
        claim=here.master_key.claim(tenant=owner, route=f"/jobs/{intake.kind}", key=key, body=claim.encode()),
        hold_ttl_ms=int(here.settings.hold_ttl_s * 1000),
    )
    if isinstance(outcome, Replay):
        raise TypeError("a job stores no answer")
    return JobHold(outcome.release_id, Amount(charge.event.epsilon_nano, charge.event.delta_femto))


async def _withdraw(here: House, owner: str, job_id: str, hold: JobHold | None) -> None:
    """Remove the files of a job that was not created, and refund its hold.

    When Redis cannot say whether it was, the next start decides about the files, the hold's deadline about the hold.
    """
    try:
        await here.jobs.store.get(owner, job_id)
    except UnknownJob:
        here.jobs.discard(job_id)
        await _refund(here, owner, hold)


async def _refund(here: House, owner: str, hold: JobHold | None) -> None:
    """Nothing was drawn: no job owns the hold. Where Redis does not answer, its deadline spends it."""
    if hold is not None:
        with contextlib.suppress(LedgerError):
            await here.ledger.cancel(owner, hold.release_id, reason="no-job")


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
    settled = await asyncio.to_thread(intake.settled, here, owner, fields)
    stored: dict[str, Any] = settled.model_dump()
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
    for own_name, field in fields.model_fields.items():
        name = field.alias or own_name
        if name in values and field.annotation not in (str, str | None):
            with contextlib.suppress(orjson.JSONDecodeError):  # what is no JSON is refused as the text that it is
                values[name] = orjson.loads(values[name])
    return values


def _refused(error: ValidationError, part: str) -> RequestValidationError:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return RequestValidationError([entry | {"loc": (part, *entry["loc"])} for entry in found])
