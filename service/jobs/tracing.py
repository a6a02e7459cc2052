"""The span of an attempt at a job. It is a trace of its own: a job may run long after its request, elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable

from core import spans
from core.ledger.job_records import JobRecord
from gpu_workers.jobs.messages import Failed
from service.jobs.attempt import Outcome


async def traced_attempt(job: JobRecord, outcome: Awaitable[Outcome]) -> Outcome:
    """Await the outcome of an attempt. The writes of its progress are no steps: there is one each half second."""
    span = spans.root("job attempt")
    span.set("gateway.job.id", job.job_id)
    span.set("gateway.job.kind", job.kind)
    span.set("gateway.job.attempt", job.attempts)
    try:
        found = await outcome
    except BaseException as error:
        span.fail(error)
        raise
    else:
        span.set("gateway.outcome", type(found).__name__.lower())
        if isinstance(found, Failed):
            span.fail(found.problem)
        return found
    finally:
        span.end()
