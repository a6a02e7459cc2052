"""A job as every answer shows it."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from core.ledger.job_records import JobRecord
from service.http.problems import amount, problem_type


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


def event_id(block: dict[str, Any]) -> str:
    """The id of the event with this block. It is a function of what the event shows: a count of changes would tell how
    fast the job's process was, which depends on its rows."""
    return hashlib.sha256(orjson.dumps(block)).hexdigest()[:16]
