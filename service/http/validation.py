"""Validation errors of models that a route reads by itself, in the form that the framework's own have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError


def findings(error: ValidationError, *place: str) -> list[dict[str, Any]]:
    """What is wrong and where, below `place`. Holds nothing of the input."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [{**entry, "loc": (*place, *entry["loc"])} for entry in found]


def invalid_request(error: ValidationError, *place: str) -> RequestValidationError:
    """The error that a route raises for a model which it validated by itself, at `place` of the request."""
    return RequestValidationError(findings(error, *place))


def names(found: Sequence[dict[str, Any]]) -> str:
    """The findings in one line, for messages to the operator about files of settings."""
    return "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in found)
