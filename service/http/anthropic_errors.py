"""Errors of `/v1/messages` and below in the shape of Anthropic's: `{"type": "error", "error": {"type", "message"}}`.

They are made from the problem documents of `service/http/problems.py`, with the same `code` and further members.
"""

from collections.abc import Mapping
from typing import Any

from service.http import openai_errors

PATH = "/v1/messages"


def serves(path: str) -> bool:
    """Whether errors of this path have this shape."""
    return path == PATH or path.startswith(f"{PATH}/")


_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def body(problem: Mapping[str, Any]) -> dict[str, Any]:
    """The error body with the content of `problem`."""
    content = openai_errors.body(problem)["error"]
    status = openai_errors.status(problem["status"])
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": content | {"type": kind}}
