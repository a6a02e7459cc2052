"""Batches as jobs: how one is created from a stored file, and how its job is shown in OpenAI's words."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from fastapi import Request

from core.errors import UnknownJob
from core.ledger.reuse import Attempts
from core.redis.names import RELEASE_WORDS
from core.state.jobs import JobRecord, JobStatus
from core.state.keystore import KeyRole
from core.state.stored_files import BATCHES, StoredEntry
from gpu_workers.jobs.protocol import JobOrder
from service.batches.files import BatchFiles, made
from service.batches.rows import KeptRows
from service.batches.task import WINDOW_S, BatchParts, BatchSpec, BatchTask
from service.config.settings import Settings
from service.files.stored import StoredFiles
from service.http.auth import Caller
from service.http.strict import attempt_number, idempotency_key, is_generated
from service.jobs.files import Incoming
from service.jobs.kind import JobKind, Made, OpenJob, Outputs
from service.jobs.runner import JobRunner
from service.jobs.submit import JobSubmission

PREFIX = "batch_"
EMBEDDINGS = "/v1/embeddings"


def _label(endpoint: str) -> str:
    return endpoint.removeprefix("/v1/").replace("/", ".")


class BatchKind(JobKind):
    """Guarantee: that of each line's endpoint. The job itself charges nothing."""

    name = "batch"
    is_uploaded = False
    keeps = True
    entry_point = ""  # it runs in no process

    def __init__(self, parts: Callable[[], BatchParts], *, serves: Collection[str]) -> None:
        """`serves`: the workers of this gateway, without which no line of an endpoint has an answer."""
        self._parts = parts
        self._serves = serves

    def can_run(self, label: str) -> bool:
        return ("embed" if label == _label(EMBEDDINGS) else "sanitize") in self._serves

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> BatchSpec:
        roles = frozenset(map(KeyRole, fields["roles"]))
        caller = Caller(outputs.owner, fields["key_id"], roles, words=fields["words"])
        return BatchSpec(fields["endpoint"], caller, fields["headers"])

    @property
    def start(self) -> Callable[..., BatchTask]:
        return self._start

    def _start(self, order: JobOrder, *, job: JobRecord, on_message: Callable[[Any], None], **_: Any) -> BatchTask:
        return BatchTask(self._parts(), order, job=job, on_message=on_message)

    def made(self, job: OpenJob, outputs: Outputs) -> list[Made]:
        published = KeptRows(job.folder, job.key).publish(outputs.artifact.parent)
        return [made(outputs.job_id, label, path, job.key, size) for label, (path, size) in published.items()]

    def partial(self, job: OpenJob) -> dict[str, Any]:
        return KeptRows(job.folder, job.key).result


@dataclass(frozen=True)
class BatchTerms:
    """What a batch was created with, as its entry keeps it."""

    endpoint: str
    input_file_id: str
    metadata: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Batch:
    """A batch: its job, and its terms."""

    job: JobRecord
    terms: BatchTerms

    @property
    def status(self) -> str:
        """One of OpenAI's statuses."""
        job = self.job
        if job.status is JobStatus.SUCCEEDED:
            return "expired" if (job.result or {}).get("expired") else "completed"
        if job.status.ended:
            return job.status.value
        if job.cancel_requested:
            return "cancelling"
        if not (job.metrics or {}).get("rows"):
            return "validating"
        return "finalizing" if job.stage == "finalizing" else "in_progress"

    @property
    def counts(self) -> dict[str, int]:
        """`request_counts`."""
        metrics, result = self.job.metrics or {}, self.job.result or {}
        named = {"total": "rows", "completed": "rows_written", "failed": "rows_failed"}
        return {name: int(result.get(name, metrics.get(metric, 0))) for name, metric in named.items()}

    @property
    def expires_s(self) -> int:
        return self.job.created_ms // 1000 + WINDOW_S


class Batches:
    """The batches of all tenants. Methods raise LedgerUnavailable."""

    def __init__(
        self,
        settings: Settings,
        *,
        kind: BatchKind,
        files: BatchFiles,
        stored: StoredFiles,
        runner: JobRunner,
        submission: JobSubmission,
        attempts: Attempts,
    ) -> None:
        self._lives_s = settings.job_retention_s + 2 * WINDOW_S  # of an entry: longer than its job's record
        self._kind = kind
        self._files = files
        self._stored = stored
        self._runner = runner
        self._submission = submission
        self._attempts = attempts

    async def create(self, request: Request, caller: Caller, terms: BatchTerms, headers: Mapping[str, str]) -> Batch:
        """Create a batch, or find the one that an earlier request with its key, or an earlier attempt, created.

        Raises as `BatchFiles.get`, `BatchFiles.content` and `JobSubmission.submit_received`.
        """
        tenant = caller.tenant
        key = await self._key(request, caller)
        file = await self._files.get(tenant, terms.input_file_id)
        chunks = await self._files.content(tenant, file)

        def copy(incoming: Incoming) -> None:
            for chunk in chunks:
                incoming.write(chunk)

        async def receive(incoming: Incoming) -> dict[str, Any]:
            await asyncio.to_thread(copy, incoming)
            return {
                "name": _label(terms.endpoint),
                "endpoint": terms.endpoint,
                "headers": dict(headers),
                "key_id": caller.key_id,
                "roles": sorted(caller.roles),
                "words": {name: caller.words[name] for name in RELEASE_WORDS if name in caller.words},
            }

        job_id = self._submission.job_id(tenant, self._kind, key)
        if await self._stored.index.get(tenant, BATCHES, job_id) is None:
            await self._keep(tenant, job_id, terms)
        await self._submission.submit_received(
            tenant, self._kind, key, receive, generated=is_generated(request), caller=caller
        )
        return await self.get(tenant, job_id)

    async def get(self, tenant: str, batch_id: str) -> Batch:
        """Raises UnknownJob."""
        job_id = batch_id.removeprefix(PREFIX)
        job = await self._runner.store.get(tenant, job_id)
        entry = await self._stored.index.get(tenant, BATCHES, job_id)
        if entry is None:
            raise UnknownJob
        return Batch(job, self._terms(tenant, job_id, entry))

    async def list(self, tenant: str, *, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        """Batches after one, newest first, and whether there are more. Raises UnknownJob."""
        entries = await self._stored.index.of_owner(tenant, BATCHES)
        order = sorted(entries, key=lambda job_id: (entries[job_id].ends_ms or 0, job_id), reverse=True)
        if after is not None:
            if (job_id := after.removeprefix(PREFIX)) not in entries:
                raise UnknownJob
            order = order[order.index(job_id) + 1 :]
        found: list[Batch] = []
        for number, job_id in enumerate(order):
            if len(found) == limit:
                return found, number < len(order)
            try:
                job = await self._runner.store.get(tenant, job_id)
            except UnknownJob:  # its creation failed
                continue
            found.append(Batch(job, self._terms(tenant, job_id, entries[job_id])))
        return found, False

    async def cancel(self, tenant: str, batch_id: str) -> Batch:
        """Cancel a batch. One that has ended stays what it is. Raises UnknownJob."""
        batch = await self.get(tenant, batch_id)
        return Batch(await self._runner.cancel(tenant, batch.job.job_id), batch.terms)

    async def _key(self, request: Request, caller: Caller) -> str:
        """The idempotency key of a creation. A retry of an SDK has that of the attempt that it repeats."""
        key = idempotency_key(request)
        if (number := attempt_number(request)) is not None:
            route, body = request.scope["route"].path, await request.body()
            tag = self._attempts.tag(tenant=caller.tenant, key_id=caller.key_id, route=route, body=body)
            key = (await self._attempts.find(caller.tenant, tag) if number else None) or key
            await self._attempts.keep(caller.tenant, tag, key)
        request.state.headers["Idempotency-Key"] = key
        return key

    async def _keep(self, tenant: str, job_id: str, terms: BatchTerms) -> None:
        """Keep the terms before the job exists. Those of a job that is never created expire."""
        ends_ms = await self._stored.index.now_ms() + int(self._lives_s * 1000)
        facts = orjson.dumps([terms.endpoint, terms.input_file_id, terms.metadata])
        await self._stored.put(tenant, BATCHES, job_id, {}, ends_ms=ends_ms, facts=facts)

    def _terms(self, tenant: str, job_id: str, entry: StoredEntry) -> BatchTerms:
        return BatchTerms(*orjson.loads(self._stored.facts(tenant, BATCHES, job_id, entry)))
