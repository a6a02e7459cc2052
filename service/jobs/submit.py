"""Creation of jobs: the body goes to one encrypted file while it is received, then the job is created in Redis.

The job's id follows from the caller's `Idempotency-Key`: the same key finds the same job, and nobody can guess
another's. The file is in the blob store before the job is in Redis, so that any gateway can run it. A crash between
the two steps leaves files without a job, which are removed later.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from fastapi import Request
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from core.errors import (
    BadCorpus,
    ClientGone,
    InvalidInput,
    LedgerError,
    ReleaseGone,
    ReleaseInFlight,
    TenantLimitReached,
    UnknownJob,
)
from core.ledger.records import Charge, Replay
from core.ledger.transitions import Ledger
from core.master_key import Claim, MasterKey
from core.redis.names import SHARED_OWNER
from core.state.jobs import JobHold, JobRecord
from service.config.settings import Settings
from service.http.auth import Caller
from service.http.body import BodyMemory, json_limits, parse_json, read_body
from service.http.middleware import is_json
from service.http.strict import Strict, idempotency_key, invalid_request, is_generated
from service.jobs.files import Incoming
from service.jobs.holds import RELEASE_WORDS, cost_of
from service.jobs.kind import JobKind
from service.jobs.runner import JobRunner
from service.preparation import Preparation

_WRITE_BYTES = 1024 * 1024


class JobSubmission:
    """Creates jobs of every kind."""

    def __init__(
        self,
        settings: Settings,
        *,
        ledger: Ledger,
        master_key: MasterKey,
        runner: JobRunner,
        body_memory: BodyMemory,
        preparation: Preparation,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._master_key = master_key
        self._runner = runner
        self._body_memory = body_memory
        self._preparation = preparation
        self._store = runner.store

    async def submit(self, request: Request, owner: str, kind: JobKind) -> tuple[JobRecord, bool]:
        """The job that the request creates, or that an earlier one with its key created, and whether it is new.

        Raises InvalidInput, BadCorpus (empty), QueueFull, JobQuotaExceeded, TenantLimitReached, StorageFull,
        IdempotencyConflict, ReleaseInFlight, LedgerUnavailable; for a job that charges, what `Ledger.reserve` raises;
        HTTPException 400 and 415; RequestValidationError.
        """
        key = idempotency_key(request)
        request.state.headers["Idempotency-Key"] = key
        content_type = request.headers.get("content-type", "")
        said = kind.uploads.get(content_type.split(";", 1)[0].strip().lower())
        if said is None and not is_json(content_type):
            raise HTTPException(415)
        identity = request.state.identity
        receive = self._receive_json if said is None else partial(self._receive_rows, said=said)
        return await self.submit_received(
            owner,
            kind,
            key,
            partial(receive, request, owner, kind),
            generated=is_generated(request),
            caller=identity if isinstance(identity, Caller) else None,
        )

    def job_id(self, owner: str, kind: JobKind, key: str) -> str:
        """The id of the job that an idempotency key creates."""
        return self._master_key.job_claim(owner=owner, route=f"/jobs/{kind.name}", key=key)

    async def submit_received(
        self,
        owner: str,
        kind: JobKind,
        key: str,
        receive: Callable[[Incoming], Awaitable[Mapping[str, Any]]],
        *,
        generated: bool,
        caller: Caller | None,
    ) -> tuple[JobRecord, bool]:
        """As `submit`, of what `receive` writes. It returns the fields, of which `name` is the job's label."""
        job_id = self.job_id(owner, kind, key)
        is_new = not await self._exists(owner, job_id)
        open_max = self._settings.jobs_per_tenant_max
        async with self._runner.receiving(owner, job_id, is_new=is_new, open_max=open_max) as incoming:
            fields = await receive(incoming)
            if incoming.received == 0 and kind.needs_rows(fields):
                raise BadCorpus("The corpus is empty.", reason="empty", count=0)
            claim = partial(
                self._master_key.claim, tenant=owner, route=f"/jobs/{kind.name}", key=key, generated=generated
            )
            return await self._create(owner, job_id, kind, fields, incoming, claim_of=claim, caller=caller)

    async def _exists(self, owner: str, job_id: str) -> bool:
        try:
            await self._store.get(owner, job_id)
        except UnknownJob:
            return False
        return True

    async def _create(
        self,
        owner: str,
        job_id: str,
        kind: JobKind,
        fields: Mapping[str, Any],
        incoming: Incoming,
        *,
        claim_of: Callable[..., Claim],
        caller: Caller | None,
    ) -> tuple[JobRecord, bool]:
        """From a received input to a queued job. A job that charges holds its cost first, and owns that hold."""
        price = await kind.price(owner, fields)
        if price is not None:
            fields = {**fields, **price.fields}
        if price is not None and price.by_parts and caller is not None:
            fields = {**fields, RELEASE_WORDS: {"key_id": caller.key_id, "words": caller.words}}
        claim = await asyncio.to_thread(incoming.finish, fields)
        terms = {
            "kind": kind.name,
            "label": fields["name"],
            "claim": claim,
            "open_max": self._settings.jobs_per_tenant_max,
            "bytes_max": 0 if owner == SHARED_OWNER else self._settings.tenant_disk_bytes_max,
            "keeps": kind.keeps,
        }
        try:
            await self._store.get(owner, job_id)
        except UnknownJob:
            await self._check_kept(owner, kind, fields["name"])
            if not await asyncio.to_thread(incoming.keep):
                raise ReleaseInFlight from None
            hold = None
            try:
                manifest = await self._runner.working.store_input(owner, job_id)
                if price is not None and price.charges:
                    hold = await self._hold(owner, price.charges, claim_of(body=claim.encode()), caller, kind.name)
                job, created = await self._store.create(
                    owner, job_id, hold=hold, state=manifest.state, size=manifest.size, **terms
                )
            except (ReleaseGone, ReleaseInFlight):
                # Another request with this key was first, perhaps long ago: its job is the answer, if it has made one.
                await self._runner.working.discard(owner, job_id)
                if not await self._exists(owner, job_id):
                    raise
                return await self._store.create(owner, job_id, state="", size=0, **terms)
            except Exception:
                await self._withdraw(owner, job_id, hold)
                raise
            if created:
                self._runner.enqueue(job)
            else:
                await self._runner.working.discard(owner, job_id)
                await self._refund(owner, hold)
            return job, created
        # the same job, or a conflict with another body
        return await self._store.create(owner, job_id, state="", size=0, **terms)

    async def _check_kept(self, owner: str, kind: JobKind, name: str) -> None:
        """Raises TenantLimitReached if the job would make one result more than a tenant keeps."""
        if kind.kept_limit is None or owner == SHARED_OWNER:
            return
        names = await kind.kept(owner)
        names |= {job.label for job in await self._store.unfinished(owner) if job.kind == kind.name}
        if name not in names and len(names) >= getattr(self._settings, kind.kept_limit):
            raise TenantLimitReached(limit=kind.kept_limit)

    async def _hold(
        self, owner: str, charges: Sequence[Charge], claim: Claim, caller: Caller | None, kind: str
    ) -> JobHold:
        """Hold the job's cost. Until the job owns it, the hold ends as a request's does: a crash spends it."""
        outcome = await self._ledger.reserve(
            owner,
            charges,
            claim=claim,
            key_id=caller.key_id if caller else None,
            words=caller.words if caller else None,
            route=f"jobs/{kind}",
            hold_ttl_ms=int(self._settings.hold_ttl_s * 1000),
        )
        if isinstance(outcome, Replay):
            raise TypeError("a job stores no answer")
        return JobHold(outcome.release_id, cost_of(charges))

    async def _withdraw(self, owner: str, job_id: str, hold: JobHold | None) -> None:
        """Remove the files of a job that was not created, and refund its hold.

        Where Redis cannot say whether it was created, the next start decides about the files, and the hold's deadline
        about the hold.
        """
        try:
            await self._store.get(owner, job_id)
        except UnknownJob:
            await self._runner.working.discard(owner, job_id)
            await self._refund(owner, hold)

    async def _refund(self, owner: str, hold: JobHold | None) -> None:
        """Nothing was drawn: no job owns the hold. Where Redis does not answer, the hold's deadline spends it."""
        if hold is not None:
            with contextlib.suppress(LedgerError):
                await self._ledger.cancel(owner, hold.release_id, reason="no-job")

    async def _receive_json(self, request: Request, owner: str, kind: JobKind, incoming: Incoming) -> Mapping[str, Any]:
        def checked(raw: bytes) -> Any:
            try:
                return kind.body.model_validate(parse_json(raw, json_limits(self._settings)))
            except orjson.JSONDecodeError:
                raise HTTPException(400) from None
            except ValidationError as error:
                raise invalid_request(error, "body") from None

        def encoded(body: Any) -> tuple[dict[str, Any], list[bytes]]:
            """The fields, and the rows as JSON lines."""
            stored: dict[str, Any] = body.model_dump(include=set(kind.fields.model_fields))
            return stored, list(_joined(orjson.dumps(row) + b"\n" for row in kind.rows(body)))

        def write(parts: Iterable[bytes]) -> None:
            for part in parts:
                incoming.write(part)

        with self._body_memory.opened(owner) as memory:
            raw = await read_body(request, memory)
            received = await self._preparation.run(owner, len(raw), checked, raw)
            resolved = await asyncio.to_thread(kind.resolve, owner, received)  # it may read files or calibrate noise
            stored, lines = await self._preparation.run(owner, len(raw), encoded, resolved)
            await asyncio.to_thread(write, lines)
        return stored

    async def _receive_rows(
        self, request: Request, owner: str, kind: JobKind, incoming: Incoming, *, said: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Write the rows as they arrive. An error in one of them is a problem of the job. `said`: by the content type
        about the fields."""
        given = _from_query(request, kind.fields)
        for name, members in said.items():
            given[name] = {**members, **given[name]} if isinstance(given.get(name), dict) else given.get(name, members)
        try:
            fields = kind.fields.model_validate(given)
        except ValidationError as error:
            raise invalid_request(error, "query") from None
        resolved = await asyncio.to_thread(kind.resolve, owner, fields)
        stored: dict[str, Any] = resolved.model_dump()
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


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines in parts of about _WRITE_BYTES."""
    part = bytearray()
    for line in lines:
        part += line
        if len(part) >= _WRITE_BYTES:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)


def _from_query(request: Request, fields: type[Strict]) -> dict[str, Any]:
    """The query's members: text as it is, anything else as JSON. Raises InvalidInput for one that is given twice."""
    values: dict[str, Any] = dict(request.query_params)
    for own_name, field in fields.model_fields.items():
        name = field.alias or own_name
        if len(request.query_params.getlist(name)) > 1:
            raise InvalidInput("is given twice", field=f"query.{name}")
        if name in values and field.annotation not in (str, str | None):
            with contextlib.suppress(orjson.JSONDecodeError):  # what is not JSON is refused as the text that it is
                values[name] = orjson.loads(values[name])
    return values
