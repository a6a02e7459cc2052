"""Work on private text, with its failures turned into errors that hold none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from core.errors import GatewayError, TaskFailed

Answer = TypeVar("Answer")


def guarded(work: Callable[..., Answer], *arguments: object) -> Answer | GatewayError:
    """What `work` returns, or what it raises as `without_text`."""
    try:
        return work(*arguments)
    except Exception as error:
        return without_text(error)


def without_text(error: Exception) -> GatewayError:
    """A `GatewayError` without its frames, for any other error a `TaskFailed` that names its type: a message and the
    frames of a traceback may hold text."""
    if isinstance(error, GatewayError):
        return error.with_traceback(None)
    return TaskFailed(reason=type(error).__name__)
