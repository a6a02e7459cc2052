"""The span of a batch, from the moment that it is taken from the queue until its last result.

Workers get no ids of traces: the gateway knows the batch that an answer belongs to, so a worker cannot name another
trace.
"""

from __future__ import annotations

from typing import Any

from core.errors import GatewayError
from core.spans import Span


class BatchSpan:
    """Ends with the last of the batch's tasks."""

    def __init__(self, span: Span, tasks: int) -> None:
        self._span = span
        self._unfinished = tasks

    def worked(self, seconds: float) -> None:
        """The worker has reported how long it worked on the batch. The rest is the way, and the wait behind another
        batch of the worker."""
        work = self._span.child("work")
        work.start_ns -= int(seconds * 1e9)
        work.end()

    def finished(self, result: Any) -> None:
        """One of the tasks has its result."""
        if isinstance(result, GatewayError):
            self._span.fail(result)
        self._unfinished -= 1
        if self._unfinished == 0:
            self._span.end()
