"""Errors under `/v1` in the shape of OpenAI's: `{"error": {"message", "type", "param", "code", ...}}`.

They are made from the problem documents of `service/http/problems.py`, with the same `code` and further members.
Nothing of the request is added. Invalid input has status 400, because OpenAI's clients do not handle 422.
"""

from collections.abc import Mapping
from typing import Any

PREFIX = "/v1/"

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
# codes that always concern one field
_PARAMS = {"unknown-model": "model", "subject-required": "user", "subject-not-allowed": "user"}
_NOT_KEPT = {"type", "code", "title", "status", "detail"}


def status(problem_status: int) -> int:
    """The HTTP status under `/v1` of a problem with `problem_status`."""
    return 400 if problem_status == 422 else problem_status


def body(problem: Mapping[str, Any]) -> dict[str, Any]:
    """The error body with the content of `problem`."""
    shown = status(problem["status"])
    found = problem.get("errors", [])
    message = problem.get("detail", problem["title"])
    unfit = ", ".join(f"{entry['field']} ({entry['kind']})" for entry in found if "kind" in entry)
    return {
        "error": {
            "message": f"{message} {unfit}" if unfit else message,
            "type": "server_error" if shown >= 500 else _TYPES.get(shown, "invalid_request_error"),
            "param": _PARAMS.get(problem["code"]) or (_parameter(found[0]["field"]) if found else None),
            "code": problem["code"],
            **{name: value for name, value in problem.items() if name not in _NOT_KEPT},
        }
    }


def _parameter(field: str) -> str | None:
    """The parameter that contains `body.input.3` or `input.3`; None for the body itself."""
    return field.removeprefix("body").removeprefix(".").split(".")[0] or None
