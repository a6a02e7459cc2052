"""The states of jobs. What a job works on is in files of one gateway's data directory, never here.

Every change is one script (`job.lua`), durable before it returns and replay-safe. An owner is a tenant, or
SHARED_OWNER for the operator. Methods raise LedgerUnavailable as the ledger's do. Times are milliseconds since the
epoch, by Redis' clock.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from core.amounts import Amount
from core.errors import HoldNotOpen, IdempotencyConflict, InvalidInput, JobFailed, JobQuotaExceeded, UnknownJob
from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.ledger import TOMBSTONE_TTL_MS
from core.ledger.reader import LedgerReader

# What a job may tell of itself in numbers: public, or released and paid for. Nothing else of private rows.
METRICS = frozenset({"step", "steps", "eta_s", "public_rows", "public_accuracy", "public_macro_f1"})
RETENTION_MS = 30 * 24 * 3600 * 1000
_MEMBER = re.compile(r"[0-9]{13}-[0-9a-f]{32}")
_SWEEP_BATCH = 10_000


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(frozen=True)
class JobRecord:
    """A job as it stood at one moment. `seq` grows with each change; `problem` and `result` hold no request text.

    `metrics`: numbers by names of METRICS, of jobs that tell some.
    `reserved` and `spent` are privacy costs, as the job's hold in the ledger has them; a job that charges nothing has
    none.
    """

    owner: str
    job_id: str
    kind: str
    label: str
    status: JobStatus
    stage: str
    progress: float
    seq: int
    gateway: str
    attempts: int
    created_ms: int
    started_ms: int | None
    ended_ms: int | None
    cancel_requested: bool
    reserved: Amount
    spent: Amount
    metrics: Mapping[str, float] | None
    problem: Mapping[str, Any] | None
    result: Mapping[str, Any] | None


@dataclass(frozen=True)
class JobHold:
    """An open hold of `Ledger.reserve`, and what it took."""

    release_id: str
    amount: Amount


@dataclass(frozen=True)
class JobsPage:
    """Jobs, newest first; `next_cursor` is None on the last page."""

    jobs: tuple[JobRecord, ...]
    next_cursor: str | None


class JobStore:
    """Jobs in Redis. `gateway` is who holds the files of the jobs that are created and taken here."""

    def __init__(
        self,
        client: LedgerClient,
        *,
        gateway: str,
        retention_ms: int = RETENTION_MS,
        tombstone_ttl_ms: int = TOMBSTONE_TTL_MS,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """`tombstone_ttl_ms`: the ledger's. `clock` replaces Redis' time in tests."""
        self._client = client
        self._gateway = gateway
        self._retention_ms = retention_ms
        self._tombstone_ttl_ms = tombstone_ttl_ms
        self._clock = clock

    async def create(
        self,
        owner: str,
        job_id: str,
        *,
        kind: str,
        label: str,
        claim: str,
        open_max: int,
        hold: JobHold | None = None,
    ) -> tuple[JobRecord, bool]:
        """The queued job and whether it is new: the same id with the same claim again finds the same job.

        `label` is shown with the job. A job that charges brings its open `hold`, which a new job owns from then on: it
        does not expire while the job waits, `charge` spends it, and an end without a charge refunds it.
        Raises IdempotencyConflict for another claim, JobQuotaExceeded when `open_max` jobs have not ended, HoldNotOpen.
        """
        cost = hold.amount if hold else Amount(0)
        found = await self._run(
            "create",
            owner,
            job_id,
            kind=names.check_label(kind),
            label=names.check_label(label),
            claim=claim,
            operation=secrets.token_hex(8),
            open_max=open_max,
            gateway=self._gateway,
            reserved=f"{cost.epsilon_nano} {cost.delta_femto}",
            release=names.check_hex(hold.release_id, length=32) if hold else None,
        )
        if found["outcome"] == "conflict":
            raise IdempotencyConflict
        if found["outcome"] == "quota":
            raise JobQuotaExceeded
        return _record(owner, job_id, found["job"]), found["outcome"] == "created"

    async def check_room(self, owner: str, *, open_max: int) -> None:
        """Refuse early what `create` would refuse after the upload. Raises JobQuotaExceeded."""
        key = names.open_jobs_key(owner)
        if len(await self._client.call("ZRANGEBYSCORE", key, "-inf", "+inf", "LIMIT", 0, open_max)) >= open_max:
            raise JobQuotaExceeded

    async def take(self, owner: str, job_id: str, *, run: str, attempts_max: int, exhausted: JobFailed) -> JobRecord:
        """Take up a queued job, or one whose process died, for the process `run`.

        The job is then running - or it had ended, ends now as cancelled or failed (`exhausted` after `attempts_max`
        attempts), or is another gateway's: see its status. Raises UnknownJob.
        """
        found = await self._run(
            "take",
            owner,
            job_id,
            run=run,
            attempts_max=attempts_max,
            gateway=self._gateway,
            exhausted=_packed(problem_of(exhausted)),
        )
        return _record(owner, job_id, found["job"])

    async def put_back(self, owner: str, job_id: str, *, run: str) -> JobRecord:
        """An orderly end of the gateway: the job is queued again and the attempt does not count."""
        return _record(owner, job_id, (await self._run("back", owner, job_id, run=run))["job"])

    async def progress(
        self,
        owner: str,
        job_id: str,
        *,
        run: str,
        stage: str,
        fraction: float,
        metrics: Mapping[str, float] | None = None,
    ) -> JobRecord:
        """Tell how far `run` is. Moves a running job that `run` holds, and no other.

        Raises ValueError for metrics of other names than METRICS, or that are no finite numbers.
        """
        found = await self._run(
            "progress",
            owner,
            job_id,
            run=run,
            stage=names.check_label(stage),
            progress=f"{fraction:.3f}",
            metrics=_packed(_checked_metrics(metrics)),
        )
        return _record(owner, job_id, found["job"])

    async def charge(self, owner: str, job_id: str, *, run: str) -> bool:
        """Spend the job's hold; True once it is spent, also by an earlier call. Only then may noise be drawn.

        False, and nothing is spent, when somebody has asked to cancel the job or `run` does not hold it. In one step
        with the job's `spent`, so that neither a crash nor a lost reply charges twice or leaves the two apart.
        Raises HoldNotOpen when the hold has ended otherwise.
        """
        return bool((await self._run("charge", owner, job_id, run=run))["outcome"] == "charged")

    async def finish(
        self,
        owner: str,
        job_id: str,
        *,
        run: str,
        status: JobStatus,
        problem: JobFailed | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> JobRecord:
        """End a job that `run` holds; one that has ended, or is another's, stays what it is.

        A hold that was not charged is refunded in the same step.
        """
        ends = {"problem": _packed(problem_of(problem)) if problem else None, "result": _packed(result)}
        found = await self._run("finish", owner, job_id, run=run, status=status.value, **ends)
        return _record(owner, job_id, found["job"])

    async def cancel(self, owner: str, job_id: str) -> JobRecord:
        """Cancel a queued job; of a running one, ask its gateway to. After the end nothing changes.

        From here on `charge` spends nothing any more; what it has spent stays spent.

        Asked again after a minute, a job that still runs is cancelled here: its gateway is gone.
        """
        return _record(owner, job_id, (await self._run("cancel", owner, job_id))["job"])

    async def get(self, owner: str, job_id: str) -> JobRecord:
        """Raises UnknownJob, for another owner's job too."""
        try:
            key = names.job_key(owner, job_id)
        except ValueError:
            raise UnknownJob from None
        return _record(owner, job_id, _texts(await self._client.call("HGETALL", key)))

    async def page(self, owner: str, *, cursor: str | None, limit: int) -> JobsPage:
        """Up to `limit` jobs, newest first, from `cursor` on. Raises InvalidInput for a cursor of another form."""
        if cursor is not None and not _MEMBER.fullmatch(cursor):
            raise InvalidInput("`cursor` is the `next_cursor` of the page before.", field="cursor")
        first = f"({cursor}" if cursor else "-"
        members = await self._client.call("ZRANGEBYLEX", names.jobs_key(owner), first, "+", "LIMIT", 0, limit + 1)
        shown = [member.decode() for member in members[:limit]]
        ids = [member.partition("-")[2] for member in shown]
        found = await self._client.call_many([("HGETALL", names.job_key(owner, job_id)) for job_id in ids])
        jobs = [_record(owner, job_id, _texts(raw)) for job_id, raw in zip(ids, found, strict=True) if raw]
        return JobsPage(tuple(jobs), shown[-1] if len(members) > limit else None)

    async def unfinished_here(self) -> tuple[JobRecord, ...]:
        """Every job of this gateway that has not ended, oldest first."""
        owners = [tenant.name for tenant in await LedgerReader(self._client).tenants()]
        found: list[JobRecord] = []
        for owner in (names.SHARED_OWNER, *owners):
            ids = await self._client.call(
                "ZRANGEBYSCORE", names.open_jobs_key(owner), "-inf", "+inf", "LIMIT", 0, _SWEEP_BATCH
            )
            for job_id in ids:
                with contextlib.suppress(UnknownJob):
                    found.append(await self.get(owner, job_id.decode()))
        return tuple(sorted((job for job in found if job.gateway == self._gateway), key=lambda job: job.created_ms))

    async def _run(self, action: str, owner: str, job_id: str, **args: Any) -> dict[str, Any]:
        given = {name: value for name, value in args.items() if value is not None}
        names.job_key(owner, job_id)  # refuses what is no id
        fixed: dict[str, Any] = {
            "action": action,
            "job": job_id,
            "retention_ms": self._retention_ms,
            "tombstone_ttl_ms": self._tombstone_ttl_ms,
        }
        if self._clock:
            fixed["now_ms"] = self._clock()
        found, _ = await self._client.run("job", key=names.jobs_base_key(owner), args=fixed | given)
        if found["outcome"] == "unknown":
            raise UnknownJob
        if found["outcome"] == "not-open":
            raise HoldNotOpen(state=found["state"])
        return found


def problem_of(error: JobFailed) -> dict[str, Any]:
    """A failure as a job shows it: fixed words and numbers."""
    members = {"reason": error.reason, "line": error.line, "count": error.count}
    shown = {"code": error.code, "title": error.title, "detail": error.detail}
    return shown | {name: value for name, value in members.items() if value is not None}


def _checked_metrics(metrics: Mapping[str, float] | None) -> Mapping[str, float] | None:
    if metrics is not None and not (
        metrics.keys() <= METRICS and all(type(x) in (int, float) and math.isfinite(x) for x in metrics.values())
    ):
        raise ValueError("a job tells numbers of fixed names")
    return metrics


def _packed(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _texts(raw: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in raw.items()}


def _amount(text: str) -> Amount:
    epsilon_nano, delta_femto = text.split()
    return Amount(int(epsilon_nano), int(delta_femto))


def _record(owner: str, job_id: str, job: Mapping[str, str]) -> JobRecord:
    if "status" not in job:
        raise UnknownJob
    times = {name: int(job[name]) if name in job else None for name in ("started_ms", "ended_ms")}
    return JobRecord(
        owner=owner,
        job_id=job_id,
        kind=job["kind"],
        label=job["label"],
        status=JobStatus(job["status"]),
        stage=job["stage"],
        progress=float(job["progress"]),
        seq=int(job["seq"]),
        gateway=job["gateway"],
        attempts=int(job["attempts"]),
        created_ms=int(job["created_ms"]),
        cancel_requested="cancel_ms" in job,
        reserved=_amount(job["reserved"]),
        spent=_amount(job["spent"]),
        metrics=orjson.loads(job["metrics"]) if "metrics" in job else None,
        problem=orjson.loads(job["problem"]) if "problem" in job else None,
        result=orjson.loads(job["result"]) if "result" in job else None,
        **times,
    )
