"""The records of jobs: what Redis holds of a job, as Python sees it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from core.amounts import Amount
from core.errors import JobFailed, UnknownJob
from core.state.stored_files import StoredEntry

# The numbers that a job may report. Each is public, or was released and paid for. No others may depend on private rows,
# and no clock is among them: the time of a step depends on the rows that it reads.
METRICS = frozenset({"step", "steps", "public_rows", "public_accuracy", "public_macro_f1"})


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
    """The state of a job at one moment. `seq` grows with each change that is stored. A fast job has fewer of them, so
    no answer shows it. `problem` and `result` contain no request text.

    `metrics` maps names of METRICS to numbers; it is None for a job that reports none.
    `run` is the attempt that holds a running job, `gateway` the gateway of it, and `lease_ms` when another gateway may
    replace it. `state` is the manifest of the job's files in the blob store.
    `outcome` is the blob of the outcome that the job publishes; None if none is sealed.
    `reserved` and `spent` are the privacy costs of the job's hold in the ledger. They are zero for a job that charges
    nothing.
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


def problem_of(error: JobFailed) -> dict[str, Any]:
    """Return the public form of a job's failure. It contains fixed texts and numbers only."""
    members = {"reason": error.reason, "line": error.line, "count": error.count}
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
        **times,
    )
