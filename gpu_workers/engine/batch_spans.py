"""Links between requests and the batches that run them.

A batch is a trace of its own, because it runs tasks of several requests. It is linked to the requests that start with
it, and they to it. Later batches of a request, with the pieces of a large document, have no link to it: their number
would tell the length of the document.
"""

from __future__ import annotations

from collections.abc import Sequence

from core import spans
from gpu_workers.engine.pending import BatchSpan, PendingTask
from gpu_workers.engine.protocol import Role


def trace_batch(role: Role, batch: Sequence[PendingTask]) -> None:
    """Begin the span of a batch whose groups are not marked as started yet, and end their wait."""
    if not spans.is_installed():
        return
    starting = {id(pending.group): pending.group for pending in batch if not pending.group.started}.values()
    waits = [group.waiting for group in starting if group.waiting]
    if not waits:
        return
    span = spans.root("batch", because_of=waits)
    span.set("gateway.role", role.value)
    for wait in waits:
        if not wait.end_ns:  # it has ended if an earlier batch was not run
            wait.link(span)
            wait.end()
    whole = BatchSpan(span, len(batch))
    for pending in batch:
        pending.in_batch = whole


def trace_work(batch: Sequence[PendingTask], seconds: float) -> None:
    """Record the time that a worker reports for a batch. Call it before the tasks are finished."""
    if batch and batch[0].in_batch is not None:
        batch[0].in_batch.worked(seconds)
