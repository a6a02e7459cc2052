"""The span of a batch, from the moment that it is taken from the queue until its last result."""

from __future__ import annotations

from typing import Any

from core.errors import GatewayError
from core.spans import Span


class BatchSpan:
    """Ends with the last of the batch's tasks."""

    def __init__(self, span: Span, tasks: int) -> None:
        self._span = span
        self._unfinished = tasks

    def finished(self, result: Any) -> None:
        """One of the tasks has its result."""
        if isinstance(result, GatewayError):
            self._span.fail(result)
        self._unfinished -= 1
        if self._unfinished == 0:
            self._span.end()
