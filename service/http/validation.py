"""Validation errors of models that a route validates itself, in the form of the framework's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError


def findings(error: ValidationError, *place: str) -> list[dict[str, Any]]:
    """What is wrong and where, with locations below `place`. Contains no input."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [{**entry, "loc": (*place, *entry["loc"])} for entry in found]


def invalid_request(error: ValidationError, *place: str) -> RequestValidationError:
    """The error to raise for a model at `place` of the request."""
    return RequestValidationError(findings(error, *place))


def names(found: Sequence[dict[str, Any]]) -> str:
    """The findings in one line, for messages to the operator about configuration files."""
    return "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in found)
