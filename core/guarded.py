"""Runs work on private text and converts its failures to errors that contain no text."""

from collections.abc import Callable
from typing import TypeVar

from core.errors import GatewayError, TaskFailed

Answer = TypeVar("Answer")


def guarded(work: Callable[..., Answer], *arguments: object) -> Answer | GatewayError:
    """Return the result of `work`, or the exception that it raises, converted by `without_text`."""
    try:
        return work(*arguments)
    except Exception as error:
        return without_text(error)


def without_text(error: Exception) -> GatewayError:
    """Return a `GatewayError` without its frames. Any other error becomes a `TaskFailed` with the name of its type,
    because a message and the frames of a traceback may contain text."""
    if isinstance(error, GatewayError):
        return error.with_traceback(None)
    return TaskFailed(reason=type(error).__name__)
