"""The states of jobs. The inputs, checkpoints and outputs of a job are in the blob store, never in Redis.

Every change runs one script (`job.lua`). It is durable before it returns, and it is replay-safe. An owner is a tenant,
or SHARED_OWNER for the operator. Like the ledger's methods, these methods raise LedgerUnavailable. Times are
milliseconds since the epoch by the Redis clock.

`JobOwners` lists who may have unfinished jobs, so that a search for them does not read every tenant. Guarantee: an
owner is listed before its job exists, and as long as it has an unfinished job, while `refresh` runs somewhere. Owners
without one leave the list after minutes. A job that outlived all gateways is found by the `refresh` of a start, which
reads every tenant once.
"""

import asyncio
import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import orjson

from core import errors
from core.amounts import Amount
from core.ledger.tenant_rounds import TENANT_BATCH
from core.ledger.transitions import TOMBSTONE_TTL_MS, TenantCaps
from core.redis import names
from core.redis.client import LedgerClient
from core.state.stored_files import NamedEntry, StoredEntry, unpacked_entry

# The numbers that a job may report. Each is public, or was released and paid for. No others may depend on private rows,
# and no clock is among them: the time of a step depends on the rows that it reads.
METRICS = frozenset(
    {"step", "steps", "public_rows", "public_accuracy", "public_balanced_accuracy", "public_macro_f1"}
    | {"public_labels_given"}
    | {"rows", "rows_written", "rows_unreadable"}  # of a bulk release: their numbers are public
    | {"rows_failed"}  # of a batch: the statuses of its requests, as each would show its own
)


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(frozen=True)
class JobRecord:
    """The state of a job at one moment. `seq` grows with each change that is stored. A fast job has fewer of them, so
    no answer shows it. `problem` and `result` contain no request text.

    `metrics` maps names of METRICS to numbers; it is None for a job that reports none.
    `run` is the attempt that holds a running job, `gateway` the gateway of it, and `lease_ms` when another gateway may
    replace it. `state` is the manifest of the job's files in the blob store.
    `attempts` counts the starts, `proven` those before the last attempt that got further than all others.
    `outcome` is the blob of the outcome that the job publishes; None if none is sealed.
    `reserved` and `spent` are the privacy costs of the job's holds in the ledger. They are zero for a job that charges
    nothing. `open_holds` is the number of parts whose holds are neither spent nor refunded, of a job that is charged in
    parts.
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
    run: str
    state: str
    lease_ms: int
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
    outcome: str | None = None
    pause_requested: bool = False
    open_holds: int = 0
    proven: int = 0


@dataclass(frozen=True)
class Finished:
    """The job after `finish`, whether this call has ended it, and the entries that its files have replaced."""

    job: JobRecord
    is_ours: bool
    replaced: Sequence[StoredEntry]


@dataclass(frozen=True)
class JobHold:
    """An open hold of `Ledger.reserve`, and the amount that it holds."""

    release_id: str
    amount: Amount


@dataclass(frozen=True)
class JobsPage:
    """Jobs, newest first; `next_cursor` is None on the last page."""

    jobs: tuple[JobRecord, ...]
    next_cursor: str | None


def problem_of(error: errors.JobFailed) -> dict[str, Any]:
    """Return the public form of a job's failure: fixed texts, numbers, and of a table what its schema declares."""
    members = {"reason": error.reason, "line": error.line, "count": error.count, "faults": list(error.faults) or None}
    shown = {"code": error.code, "title": error.title, "detail": error.detail}
    return shown | {name: value for name, value in members.items() if value is not None}


def checked_metrics(metrics: Mapping[str, float] | None) -> Mapping[str, float] | None:
    if metrics is not None and not (
        metrics.keys() <= METRICS and all(type(x) in (int, float) and math.isfinite(x) for x in metrics.values())
    ):
        raise ValueError("metrics are finite numbers with the names in METRICS")
    return metrics


def packed_json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def texts_of(raw: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in raw.items()}


def amount_of(text: str) -> Amount:
    epsilon_nano, delta_femto = text.split()
    return Amount(int(epsilon_nano), int(delta_femto))


def record_of(owner: str, job_id: str, job: Mapping[str, str]) -> JobRecord:
    if "status" not in job:
        raise errors.UnknownJob
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
        run=job["run"],
        state=job["state"],
        lease_ms=int(job.get("lease_ms", 0)),
        attempts=int(job["attempts"]),
        created_ms=int(job["created_ms"]),
        cancel_requested="cancel_ms" in job,
        reserved=amount_of(job["reserved"]),
        spent=amount_of(job["spent"]),
        metrics=orjson.loads(job["metrics"]) if "metrics" in job else None,
        problem=orjson.loads(job["problem"]) if "problem" in job else None,
        result=orjson.loads(job["result"]) if "result" in job else None,
        outcome=job.get("outcome"),
        pause_requested="pause_ms" in job,
        open_holds=int(job.get("open_holds", 0)),
        proven=int(job.get("proven", 0)),
        **times,
    )


RETENTION_MS = 30 * 24 * 3600 * 1000
LEASE_MS = 12_000
_MEMBER = re.compile(r"[0-9]{13}-[0-9a-f]{32}")
_SWEEP_BATCH = 10_000
LISTED_MS = 120_000  # many times what the creation of a job takes


class JobOwners:
    """The list of owners that may have an unfinished job. Methods raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient) -> None:
        self._client = client

    async def add(self, owner: str) -> None:
        """List an owner. Call this before its job is created."""
        await self._client.run("job_owner", key=names.JOB_OWNERS_BASE_KEY, args={"owner": names.check_owner(owner)})

    async def listed(self) -> list[str]:
        """Return every owner that may have an unfinished job, sorted."""
        found = await self._client.call("ZRANGEBYSCORE", names.JOB_OWNERS_KEY, "-inf", "+inf")
        return sorted(name.decode() for name in found)

    async def refresh(self, *, all_tenants: bool = False) -> None:
        """List owners of unfinished jobs again, then remove what is older than LISTED_MS.

        Call this at intervals below LISTED_MS / 2. `all_tenants`: look at every tenant.
        """
        now_ms = await self._client.now_ms()
        if all_tenants:
            owners = [names.SHARED_OWNER, *await self._client.tenants()]
        else:
            aging = ("ZRANGEBYSCORE", names.JOB_OWNERS_KEY, "-inf", now_ms - LISTED_MS // 2)
            owners = [name.decode() for name in await self._client.call(*aging)]
        for start in range(0, len(owners), TENANT_BATCH):
            batch = owners[start : start + TENANT_BATCH]
            counts = await self._client.call_many([("ZCARD", names.open_jobs_key(owner)) for owner in batch])
            for owner, count in zip(batch, counts, strict=True):
                if count:
                    await self.add(owner)
        await self._client.call("ZREMRANGEBYSCORE", names.JOB_OWNERS_KEY, "-inf", now_ms - LISTED_MS)


class JobStore:
    """Jobs in Redis. `gateway` is a random name of this process.

    Guarantee: one attempt holds a running job, by its `run`. An attempt that was replaced changes nothing: it can
    neither renew, store a checkpoint, charge, seal an outcome nor finish. A job is taken from its holder only when the
    holder has not renewed it for `lease_ms`, on the clock of Redis.
    """

    def __init__(
        self,
        client: LedgerClient,
        *,
        gateway: str,
        lease_ms: int = LEASE_MS,
        retention_ms: int = RETENTION_MS,
        tombstone_ttl_ms: int = TOMBSTONE_TTL_MS,
        caps: TenantCaps | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """`tombstone_ttl_ms` and `caps` are the ledger's values. `clock` replaces the Redis time in tests."""
        self._client = client
        self.gateway = gateway
        self._lease_ms = lease_ms
        self._retention_ms = retention_ms
        self._tombstone_ttl_ms = tombstone_ttl_ms
        self._caps = caps or TenantCaps()
        self._clock = clock
        self.owners = JobOwners(client)

    async def create(
        self,
        owner: str,
        job_id: str,
        *,
        kind: str,
        label: str,
        claim: str,
        open_max: int,
        state: str,
        size: int,
        bytes_max: int = 0,
        hold: JobHold | None = None,
        keeps: bool = False,
    ) -> tuple[JobRecord, bool]:
        """Create a queued job. Return it and whether it is new: the same id with the same claim returns the same job.

        `label` is displayed with the job. A job that charges passes its open `hold`, and a new job owns it from then
        on: the hold does not expire while the job waits, `charge` spends it, and a job that ends without a charge
        refunds it. `keeps`: what the job has done stands also if it fails or is cancelled; once it has started, only an
        attempt ends it.

        Raises IdempotencyConflict for another claim, JobQuotaExceeded if `open_max` jobs have not ended,
        TenantLimitReached beyond the cap on records, HoldNotOpen; StorageFull if the `size` bytes of its files exceed
        the owner's `bytes_max` (0 for none); TenantInactive for a tenant that is closed.
        """
        await self.owners.add(owner)
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
            gateway=self.gateway,
            state=state,
            bytes=size,
            bytes_max=bytes_max,
            reserved=f"{cost.epsilon_nano} {cost.delta_femto}",
            release=names.check_hex(hold.release_id, length=32) if hold else None,
            keeps="1" if keeps else None,
        )
        if found["outcome"] == "conflict":
            raise errors.IdempotencyConflict
        if found["outcome"] == "quota":
            raise errors.JobQuotaExceeded
        if found["outcome"] == "too-many":
            raise errors.TenantLimitReached(limit="job_records_per_tenant_max")
        if found["outcome"] == "full":
            raise errors.StorageFull(limit="tenant_disk_bytes_max")
        if found["outcome"] == "tenant-closed":
            raise errors.TenantInactive(code="tenant-closed")
        return record_of(owner, job_id, found["job"]), found["outcome"] == "created"

    async def check_quota(self, owner: str, *, open_max: int) -> None:
        """Check the quota before an upload, so that `create` does not reject it afterwards. Raises JobQuotaExceeded."""
        key = names.open_jobs_key(owner)
        if len(await self._client.call("ZRANGEBYSCORE", key, "-inf", "+inf", "LIMIT", 0, open_max)) >= open_max:
            raise errors.JobQuotaExceeded

    async def take(
        self, owner: str, job_id: str, *, run: str, attempts_max: int, exhausted: errors.JobFailed
    ) -> JobRecord | None:
        """Assign a queued job, one of this gateway, or one whose holder did not renew it, to the attempt `run`.

        Returns None if another gateway holds it. Else check the status of the returned job. It is running; or it had
        ended before; or it ends now, as cancelled, or as failed with `exhausted` after `attempts_max` attempts. A job
        with an `outcome` does not fail: the attempt publishes that. Raises UnknownJob.

        After LedgerUnavailable, repeat the call with the same `run`, which counts as one attempt.
        """
        found = await self._run(
            "take",
            owner,
            job_id,
            run=run,
            attempts_max=attempts_max,
            gateway=self.gateway,
            lease_ms=self._lease_ms,
            exhausted=packed_json(problem_of(exhausted)),
        )
        return None if found["outcome"] == "elsewhere" else record_of(owner, job_id, found["job"])

    async def renew(self, owner: str, job_id: str, *, run: str) -> bool:
        """Keep other gateways from replacing `run`. Returns whether `run` holds the job. Raises UnknownJob."""
        found = await self._run("renew", owner, job_id, run=run, lease_ms=self._lease_ms)
        return bool(found["outcome"] == "held")

    async def checkpoint(self, owner: str, job_id: str, *, run: str, state: str, size: int) -> bool:
        """Let the next attempt continue from the files of `state`. Returns whether `run` holds the job."""
        found = await self._run("checkpoint", owner, job_id, run=run, state=state, bytes=size)
        return bool(found["outcome"] == "held")

    async def put_back(self, owner: str, job_id: str, *, run: str) -> JobRecord:
        """Queue the job again: the gateway shuts down in order, or its turn has ended. The attempt does not count.

        A job whose pause was requested becomes paused."""
        return record_of(owner, job_id, (await self._run("back", owner, job_id, run=run))["job"])

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
        """Record the progress of `run`. Changes the job only if it is running and `run` holds it.

        Raises ValueError for metrics whose names are not in METRICS, or whose values are not finite numbers.
        """
        found = await self._run(
            "progress",
            owner,
            job_id,
            run=run,
            stage=names.check_label(stage),
            progress=f"{fraction:.3f}",
            metrics=packed_json(checked_metrics(metrics)),
        )
        return record_of(owner, job_id, found["job"])

    async def own_hold(self, owner: str, job_id: str, *, run: str, part: int, hold: JobHold) -> bool | None:
        """Let the job own an open hold for one of its parts: it then does not expire, `charge` spends it and `refund`
        ends it. Returns whether the job owns it; False if the part has another hold, None if cancellation was requested
        or `run` does not hold the job. Raises HoldNotOpen, UnknownJob."""
        amount = {"epsilon": hold.amount.epsilon_nano, "delta": hold.amount.delta_femto}
        release = names.check_hex(hold.release_id, length=32)
        found = await self._run("hold", owner, job_id, run=run, part=str(part), release=release, **amount)
        return None if found["outcome"] == "refused" else found["outcome"] == "owned"

    async def has_hold(self, owner: str, job_id: str, *, part: int) -> bool:
        """Return whether a part has, or had, a hold."""
        return await self._client.call("HGET", names.job_holds_key(owner, job_id), str(part)) is not None

    async def holds(self, owner: str, job_id: str) -> dict[int, bool]:
        """Return the parts of a job that have, or had, a hold, and whether it is open."""
        found = await self._client.call("HGETALL", names.job_holds_key(owner, job_id))
        return {int(part): b" " in value for part, value in found.items()}

    async def refund(self, owner: str, job_id: str, *, run: str, part: int) -> None:
        """Refund the hold of a part, if it is open. Call this only if no noise of the part was drawn."""
        await self._run("refund", owner, job_id, run=run, part=str(part))

    async def charge(self, owner: str, job_id: str, *, run: str, part: int | None = None) -> bool:
        """Spend the job's hold, or that of one part. Returns True once it is spent, also by an earlier call. Draw noise
        only after that.

        Returns False and spends nothing if cancellation was requested or `run` does not hold the job. The hold and the
        job's `spent` change atomically, so a crash or a lost reply neither charges twice nor makes them differ.
        Raises HoldNotOpen if the hold has ended in another way.
        """
        named = None if part is None else str(part)
        return bool((await self._run("charge", owner, job_id, run=run, part=named))["outcome"] == "charged")

    async def seal(self, owner: str, job_id: str, *, run: str, outcome: str) -> str | None:
        """Decide that the job publishes the stored `outcome`, unless one was sealed before. Returns the name of the
        outcome that stands; None, and seals nothing, if `run` does not hold the job. Raises UnknownJob."""
        found = await self._run("seal", owner, job_id, run=run, sealed=outcome)
        return record_of(owner, job_id, found["job"]).outcome if found["outcome"] == "held" else None

    async def finish(
        self,
        owner: str,
        job_id: str,
        *,
        run: str,
        status: JobStatus,
        problem: errors.JobFailed | None = None,
        result: Mapping[str, Any] | None = None,
        files: Sequence[NamedEntry] = (),
    ) -> Finished:
        """End a job that `run` holds, and store the entries of its `files` with it, in one script.

        A job that has ended or that another attempt holds does not change, and none of its files get a name. A hold
        that was not charged is refunded atomically with this change; the holds of parts were refunded before.
        """
        ends = {"problem": packed_json(problem_of(problem)) if problem else None, "result": packed_json(result)}
        named = [each.packed() for each in files]
        found = await self._run("finish", owner, job_id, run=run, status=status.value, files=named, **ends)
        replaced = [unpacked_entry(raw) for raw in found["replaced"] or ()]
        return Finished(record_of(owner, job_id, found["job"]), found["outcome"] == "finished", replaced)

    async def cancel(self, owner: str, job_id: str) -> JobRecord:
        """Cancel a queued job, or request the cancellation of a running one. An ended job does not change.

        After this call `charge` spends nothing more. What it has spent stays spent.

        A repeated call cancels a job that still runs one minute after the first request: its gateway is presumed dead.
        """
        return record_of(owner, job_id, (await self._run("cancel", owner, job_id))["job"])

    async def pause(self, owner: str, job_id: str) -> JobRecord:
        """Pause a queued job, or request it of a running one. An ended job does not change."""
        return record_of(owner, job_id, (await self._run("pause", owner, job_id))["job"])

    async def resume(self, owner: str, job_id: str) -> JobRecord:
        """Queue a paused job again, or withdraw the request."""
        return record_of(owner, job_id, (await self._run("resume", owner, job_id))["job"])

    async def get(self, owner: str, job_id: str) -> JobRecord:
        """Return a job. Raises UnknownJob, also for another owner's job."""
        return record_of(owner, job_id, texts_of(await self._client.call("HGETALL", _job_key(owner, job_id))))

    async def page(self, owner: str, *, cursor: str | None, limit: int) -> JobsPage:
        """Return up to `limit` jobs after `cursor`, newest first. Raises InvalidInput for a malformed cursor."""
        if cursor is not None and not _MEMBER.fullmatch(cursor):
            raise errors.InvalidInput("`cursor` is the `next_cursor` of the page before.", field="cursor")
        first = f"({cursor}" if cursor else "-"
        members = await self._client.call("ZRANGEBYLEX", names.jobs_key(owner), first, "+", "LIMIT", 0, limit + 1)
        shown = [member.decode() for member in members[:limit]]
        ids = [member.partition("-")[2] for member in shown]
        found = await self._client.call_many([("HGETALL", names.job_key(owner, job_id)) for job_id in ids])
        jobs = [record_of(owner, job_id, texts_of(raw)) for job_id, raw in zip(ids, found, strict=True) if raw]
        return JobsPage(tuple(jobs), shown[-1] if len(members) > limit else None)

    async def created_since(self, owner: str, since_ms: int, *, limit: int) -> list[str]:
        """Return the ids of the owner's newest jobs, ended or not, that were created at or after a time."""
        last = (
            f"({10**13 - since_ms:013d}."  # members are a number, a hyphen and an id: the point comes after the hyphen
        )
        members = await self._client.call("ZRANGEBYLEX", names.jobs_key(owner), "-", last, "LIMIT", 0, limit)
        return [member.decode().partition("-")[2] for member in members]

    async def unfinished_ids(self, owner: str) -> list[str]:
        """Return the ids of the owner's jobs that have not ended."""
        key = names.open_jobs_key(owner)
        found = await self._client.call("ZRANGEBYSCORE", key, "-inf", "+inf", "LIMIT", 0, _SWEEP_BATCH)
        return [job_id.decode() for job_id in found]

    async def now_ms(self) -> int:
        """The time by which leases end."""
        return self._clock() if self._clock else await self._client.now_ms()

    async def unfinished_of_all(self) -> tuple[JobRecord, ...]:
        """Return the jobs of all listed owners that have not ended, oldest first."""
        found = await asyncio.gather(*(self.unfinished(owner) for owner in await self.owners.listed()))
        return tuple(sorted((job for jobs in found for job in jobs), key=lambda job: job.created_ms))

    async def unfinished(self, owner: str) -> list[JobRecord]:
        """Return the owner's jobs that have not ended, on all gateways."""
        ids = await self.unfinished_ids(owner)
        found = await self._client.call_many([("HGETALL", names.job_key(owner, job_id)) for job_id in ids])
        return [record_of(owner, job_id, texts_of(raw)) for job_id, raw in zip(ids, found, strict=True) if raw]

    async def _run(self, action: str, owner: str, job_id: str, **args: Any) -> dict[str, Any]:
        given = {name: value for name, value in args.items() if value is not None}
        _job_key(owner, job_id)
        fixed: dict[str, Any] = {
            "action": action,
            "job": job_id,
            "retention_ms": self._retention_ms,
            "tombstone_ttl_ms": self._tombstone_ttl_ms,
            **asdict(self._caps),
        }
        if self._clock:
            fixed["now_ms"] = self._clock()
        found, _ = await self._client.run("job", key=names.jobs_base_key(owner), args=fixed | given)
        if found["outcome"] == "unknown":
            raise errors.UnknownJob
        if found["outcome"] == "not-open":
            raise errors.HoldNotOpen(state=found["state"])
        return found


def _job_key(owner: str, job_id: str) -> str:
    """The key of a job. Raises UnknownJob for a malformed id: a path may hold any text."""
    try:
        return names.job_key(owner, job_id)
    except ValueError:
        raise errors.UnknownJob from None
