"""Errors as `application/problem+json` (RFC 9457), with the table that maps the error tree to HTTP statuses.

A problem repeats no value of the request: it consists of fixed sentences, typed numbers and field names that the
gateway defines. One thing of the caller may be in it: the name of an unknown member of a body or a query, if it is a
short word of letters and underscores, because nobody finds a misspelt member without its name.

Under `/v1` an error has the shape of the provider whose clients call there: OpenAI's `{"error": {"message", "type",
"param", "code", ...}}`, or Anthropic's `{"type": "error", "error": {"type", "message"}}` for `/v1/messages`. It is made
from the problem document, with the same `code` and further members. Invalid input has status 400, because OpenAI's
clients do not handle 422.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core import errors
from core.amounts import BASIC, Amount, ArmState, delta_of, epsilon_of
from service import metrics
from service.http.answers import DEFAULT_PROBLEM, PROBLEM_TYPE, PROVIDERS_PREFIX, BudgetAmount
from service.wrong_values import WORDS

# Most specific class first: the first match wins.
STATUS: tuple[tuple[type[errors.GatewayError], int], ...] = (
    (errors.InvalidInput, 422),
    (errors.UnitMismatch, 422),
    (errors.CalculationTimeout, 504),
    (errors.LedgerUnavailable, 503),
    (errors.BudgetExhausted, 403),
    (errors.PlanMismatch, 403),
    (errors.UnknownAccount, 404),
    (errors.UnknownTenant, 404),
    (errors.UnknownKey, 404),
    (errors.UnknownJob, 404),
    (errors.JobQuotaExceeded, 429),
    (errors.JobNotSucceeded, 409),
    (errors.BadCorpus, 422),
    (errors.JobFailed, 500),
    (errors.RoleMissing, 403),
    (errors.BrowserRefused, 403),
    (errors.SignOnFailed, 403),
    (errors.UnknownName, 404),
    (errors.RecogniserBroken, 422),
    (errors.PolicyEnforced, 403),
    (errors.InstalledFileBroken, 422),
    (errors.DataDirInUse, 503),
    (errors.BlobExists, 409),
    (errors.BlobError, 503),
    (errors.UpstreamTimeout, 504),
    (errors.UpstreamFailed, 502),
    (errors.TenantExists, 409),
    (errors.TenantInactive, 403),
    (errors.IdempotencyConflict, 422),
    (errors.ReleaseInFlight, 409),
    (errors.ReleaseGone, 410),
    (errors.HoldNotOpen, 504),
    (errors.DeadlineBeforeStart, 504),
    (errors.TenantLimitReached, 429),
    (errors.StorageFull, 507),
    (errors.NotStarted, 503),
    (errors.WorkerDied, 502),
    (errors.InfillFailed, 502),
    (errors.TooCostly, 422),
    (errors.Started, 500),
)
# Codes that have another status than the class of their errors.
STATUS_OF_CODE: Mapping[str, int] = {"host-refused": 421, "deadline-exceeded": 504, "tenant-closed": 409}

RETRY_AFTER_S: Mapping[int, str] = {503: "2", 429: "60"}

_CODES: Mapping[int, str] = {
    400: "malformed",
    401: "unauthorized",
    403: "wrong-scope",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    413: "body-too-large",
    415: "unsupported-media-type",
    429: "rate-limited",
    431: "headers-too-large",
}

# What a plain status means, and what to do next.
_MEANINGS: Mapping[int, str] = {
    400: "The request is not of the form that HTTP or JSON asks for.",
    401: "No API key, or one that is unknown, expired or revoked. Send it as `Authorization: Bearer KEY`.",
    403: "The admin key opens no path of a tenant, and the key of a tenant none under /admin.",
    404: "There is no such path. /docs shows all of them.",
    405: "This path takes another method: the header Allow names it.",
    408: "The body arrived too slowly. Send it again.",
    413: "The body is larger than the gateway permits. Send less at a time.",
    415: "The body has another Content-Type than this path takes: application/json, unless /docs says otherwise.",
    429: "Too many requests. Retry-After says how many seconds to wait.",
    431: "The head of the request is too large. Send fewer or shorter headers.",
}
PROBLEMS_PATH = "/problems"
ANTHROPIC_PATH = "/v1/messages"

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
# codes that always concern one field
_PARAMS = {"unknown-model": "model", "subject-required": "user", "subject-not-allowed": "user"}
_NOT_KEPT = {"type", "code", "title", "status", "detail"}

_NAME_CHARS_MAX = 40
_NAME = re.compile(rf"[A-Za-z_]{{1,{_NAME_CHARS_MAX}}}")
_QUOTED = re.compile(r"'([^']+)'")  # in pydantic's lists of values


def problem(
    status: int,
    code: str,
    title: str,
    *,
    detail: str | None = None,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Response:
    """A problem document as a response; see `block`."""
    return _answer(block(status, code, title, detail=detail, **members), headers)


def block(status: int, code: str, title: str, *, detail: str | None = None, **members: Any) -> dict[str, Any]:
    """The content of a problem document; also counts it. `members`: numbers, fixed words or structures of those."""
    metrics.PROBLEMS.labels(code).inc()
    content: dict[str, Any] = {"type": problem_type(code), "code": code, "title": title, "status": status}
    if detail is not None and detail != title:
        content["detail"] = detail
    return content | members


def _answer(content: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    all_headers = dict(headers or {})
    if content["status"] in RETRY_AFTER_S:
        all_headers.setdefault("Retry-After", RETRY_AFTER_S[content["status"]])
    return Problem(content, headers=all_headers)


class Problem(Response):
    """A problem document. Under `/v1/` it has the same facts in the shape that OpenAI's or Anthropic's clients read.

    `request_id` is added when it is sent: the value of the header X-Request-ID.
    """

    media_type = PROBLEM_TYPE

    def __init__(self, content: Mapping[str, Any], *, headers: Mapping[str, str]) -> None:
        super().__init__(status_code=content["status"])
        self._content = content
        self._shown = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = {**self._content, "request_id": scope["state"]["request_id"]}
        status, media_type = self.status_code, PROBLEM_TYPE
        if scope["path"].startswith(PROVIDERS_PREFIX):
            content = (anthropic_body if is_for_anthropic(scope["path"]) else openai_body)(content)
            status, media_type = provider_status(status), "application/json"
        response = Response(orjson.dumps(content), status_code=status, headers=self._shown, media_type=media_type)
        await response(scope, receive, send)


def is_for_anthropic(path: str) -> bool:
    """Whether errors of this path have Anthropic's shape."""
    return path == ANTHROPIC_PATH or path.startswith(f"{ANTHROPIC_PATH}/")


def provider_status(problem_status: int) -> int:
    """The HTTP status under `/v1` of a problem with `problem_status`."""
    return 400 if problem_status == 422 else problem_status


def _said(entry: Mapping[str, Any]) -> str:
    field, message = entry["field"], entry.get("message") or entry["kind"]
    return message if message.startswith(f"`{field}`") else f"{field}: {message}"


def openai_body(problem: Mapping[str, Any]) -> dict[str, Any]:
    """The error body of OpenAI's shape with the content of `problem`."""
    shown = provider_status(problem["status"])
    found = problem.get("errors", [])
    said = "; ".join(map(_said, found))
    return {
        "error": {
            "message": said or problem.get("detail", problem["title"]),
            "type": "server_error" if shown >= 500 else _OPENAI_TYPES.get(shown, "invalid_request_error"),
            "param": _PARAMS.get(problem["code"]) or (_parameter(found[0]["field"]) if found else None),
            "code": problem["code"],
            **{name: value for name, value in problem.items() if name not in _NOT_KEPT},
        }
    }


def anthropic_body(problem: Mapping[str, Any]) -> dict[str, Any]:
    """The error body of Anthropic's shape with the content of `problem`."""
    content = openai_body(problem)["error"]
    shown = provider_status(problem["status"])
    kind = _ANTHROPIC_TYPES.get(shown, "api_error" if shown >= 500 else "invalid_request_error")
    return {"type": "error", "error": content | {"type": kind}}


def _parameter(field: str) -> str | None:
    """The parameter that contains `body.input.3` or `input.3`; None for the body itself."""
    return field.removeprefix("body").removeprefix(".").split(".")[0] or None


def problem_type(code: str) -> str:
    """A link to the code on the gateway's page of problems, relative to the address of the gateway."""
    return f"{PROBLEMS_PATH}#{code}"


def amount(value: Amount) -> BudgetAmount:
    """An amount as every budget block shows it."""
    return {"epsilon": epsilon_of(value.epsilon_nano), "delta": delta_of(value.delta_femto)}


def status_of(error: errors.GatewayError) -> int:
    return status_of_code(type(error), error.code)


def status_of_code(kind: type[errors.GatewayError], code: str) -> int:
    of_kind = next((status for known, status in STATUS if issubclass(kind, known)), 500)
    return STATUS_OF_CODE.get(code, of_kind)


def plain_statuses() -> dict[str, tuple[int, str]]:
    """Status and meaning of the codes that stand for a plain HTTP status."""
    return {code: (status, _MEANINGS[status]) for status, code in _CODES.items()}


def error_block(error: errors.GatewayError) -> dict[str, Any]:
    """The content of the problem document of an error of the tree."""
    members: dict[str, Any] = {}
    if isinstance(error, errors.BudgetExhausted):
        members = {
            "account": error.account,
            "requested": amount(error.requested),
            "remaining": amount(error.remaining),
            "arms": [_arm(arm) for arm in error.arms],
        }
    elif isinstance(error, errors.PlanMismatch):
        members = {"account": error.account}
    elif isinstance(error, errors.BadRow):
        members = {
            "errors": [{"field": error.field, "message": error.detail}],
            "reason": error.reason,
            "row": error.row,
            "faults": list(error.faults),
        }
    elif isinstance(error, errors.InvalidInput) and error.field is not None:
        members = {"errors": [{"field": error.field, "message": error.detail}]}
    elif isinstance(error, errors.JobFailed):
        facts = {"reason": error.reason, "line": error.line, "count": error.count}
        members = {name: value for name, value in facts.items() if value is not None}
    elif isinstance(error, errors.InfillFailed | errors.UpstreamFailed | errors.SignOnFailed | errors.StoreUnavailable):
        members = {"reason": error.reason}
    elif isinstance(error, errors.RoleMissing):
        members = {"role": error.role}
    elif isinstance(error, errors.TenantLimitReached | errors.StorageFull):
        members = {"released": False, "limit": error.limit}
    elif isinstance(error, errors.NotStarted | errors.LedgerUnavailable):
        members = {"released": False}
    if error.charged is not None:
        members["charged"] = error.charged
    return block(status_of(error), error.code, error.title, detail=error.detail, **members)


def _arm(arm: ArmState) -> dict[str, Any]:
    """What remains of an arm, and what the refused release needs of it (None: the arm cannot price the release)."""
    shown: dict[str, Any] = {
        "name": arm.name,
        "order": arm.order,
        "requested": arm.requested,
        "remaining": max(0.0, arm.limit - arm.spent) if arm.is_open else 0.0,
    }
    if arm.name == BASIC:
        shown["remaining_delta"] = max(0.0, arm.limit_delta - arm.spent_delta) if arm.is_open else 0.0
    return shown


async def on_gateway_error(_: Request, error: Exception) -> Response:
    """The answer to an error of the gateway. Its traceback ends: where a frame in it refers to the error, both would
    keep the text of the request in memory until a collection."""
    if not isinstance(error, errors.GatewayError):
        raise TypeError("handler for GatewayError")
    error.__traceback__ = None
    return _answer(error_block(error))


async def on_invalid_request(_: Request, error: Exception) -> Response:
    """The 400 or 422 for a body that does not match its model, without any value of it."""
    if not isinstance(error, RequestValidationError):
        raise TypeError("handler for RequestValidationError")
    found = error.errors()
    if any(entry["type"] == "json_invalid" for entry in found):
        return problem(400, "malformed", "The body is not valid JSON.")
    return _answer(unfit_block(found))


def unfit_block(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The content of the 422 for a value that does not match its model. `found`: pydantic's list of errors."""
    return block(422, "invalid-input", errors.InvalidInput.title, errors=[_finding(entry) for entry in found[:20]])


def _finding(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A member of `errors`: where and what, and of a member or value that is not permitted, what is."""
    kind, ctx, loc = entry["type"], entry.get("ctx", {}), entry["loc"]
    sent, permitted = entry.get("input"), ctx.get("permitted", [])
    is_own = kind == "value_error" and "error" not in ctx  # a sentence of this code; that of a ValueError is not shown
    message = entry["msg"] if permitted or is_own else WORDS[kind].format_map(ctx) if kind in WORDS else None
    if kind == "extra_forbidden":
        *loc, sent = loc
        if _NAME.fullmatch(str(sent)):
            loc = [*loc, sent]
    elif kind in ("literal_error", "enum"):
        permitted = _QUOTED.findall(ctx["expected"])
    elif kind == "union_tag_invalid" and ctx["discriminator"].startswith("'"):  # else a function finds the tag
        loc, sent = [*loc, ctx["discriminator"].strip("'")], ctx["tag"]
        permitted, message = _QUOTED.findall(ctx["expected_tags"]), f"is not one of {ctx['expected_tags']}"
    shown: dict[str, Any] = {"field": _location(loc), "kind": kind}
    nearest = nearest_word(sent, permitted) if isinstance(sent, str) else None
    if nearest is not None:
        message = f"{message}; the nearest is {nearest}"
    elif kind == "extra_forbidden" and permitted:
        message = f"{message}; there are {', '.join(permitted)}"
    optional = {"message": message, "permitted": permitted, "nearest": nearest}
    return shown | {name: value for name, value in optional.items() if value}


def _location(loc: Sequence[Any]) -> str:
    """A location such as `body.documents.3.text`."""
    return ".".join(str(part) if isinstance(part, int) or _NAME.fullmatch(str(part)) else "?" for part in loc)


def nearest_word(sent: str, words: Sequence[str]) -> str | None:
    """The word that is most like what was sent, in letters of either case; None if none is like it."""
    folded = {word.lower(): word for word in words}
    near = get_close_matches(sent.lower(), folded, 1) if len(sent) <= _NAME_CHARS_MAX else []
    return folded[near[0]] if near else None


async def on_http_error(_: Request, error: Exception) -> Response:
    """HTTP errors of the framework and of the gateway. The status alone selects the wording."""
    if not isinstance(error, HTTPException):
        raise TypeError("handler for HTTPException")
    return from_status(error)


def from_status(error: HTTPException) -> Response:
    """The problem document of a plain HTTP status."""
    return _answer(http_block(error.status_code), error.headers)


def block_of(error: errors.GatewayError | HTTPException) -> dict[str, Any]:
    """The content of the problem document of either."""
    return http_block(error.status_code) if isinstance(error, HTTPException) else error_block(error)


def http_block(status: int) -> dict[str, Any]:
    """The content of the problem document of a plain HTTP status."""
    return block(status, _CODES.get(status, "http-error"), _MEANINGS.get(status, HTTPStatus(status).phrase))


def documented(**reasons: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's `responses` for problem documents: the reason for each status, as `s408="..."`."""
    content = DEFAULT_PROBLEM["default"]["content"]
    return {int(name[1:]): {"description": reason, "content": content} for name, reason in reasons.items()}


def internal_error() -> Response:
    return problem(500, "internal", errors.GatewayError.title)
