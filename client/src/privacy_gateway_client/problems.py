"""From an answer to its error: one table from the codes of problems to the classes of the tree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from privacy_gateway_client import errors

_CODES_OF: dict[type[errors.Problem], str] = {
    errors.Rejected: """
        malformed method-not-allowed unsupported-media-type host-refused invalid-input infill-broken
        recogniser-broken domain-broken subject-required subject-not-allowed out-of-range unsupported-event
        no-unique-root idempotency-conflict unit-mismatch
    """,
    errors.Unauthorized: "unauthorized",
    errors.Forbidden: "wrong-scope cross-site-request sign-on-failed",
    errors.RoleMissing: "role-missing",
    errors.BudgetExhausted: "budget-exhausted",
    errors.PlanMismatch: "plan-mismatch",
    errors.PolicyEnforced: "policy-enforced",
    errors.NotFound: """
        not-found unknown-account unknown-tenant unknown-key unknown-job unknown-alert-rule unknown-recogniser
        unknown-domain unknown-model
    """,
    errors.NotStarted: """
        request-timeout ledger-unavailable ledger-not-durable ledger-not-trusted data-dir-in-use store-unavailable
        blob-missing blob-corrupt blob-error queue-full too-many-connections worker-not-ready not-ready client-gone
        not-started deadline-before-start
    """,
    errors.ReleaseInFlight: "release-in-flight",
    errors.JobNotSucceeded: "job-not-succeeded",
    errors.Conflict: "tenant-exists blob-exists",
    errors.ReleaseGone: "release-gone",
    errors.TooLarge: "body-too-large headers-too-large too-costly",
    errors.BadRow: "bad-corpus bad-row",
    errors.JobQuota: "job-quota",
    errors.TooManyRequests: "rate-limited tenant-limit",
    errors.WorkFailed: """
        task-failed recogniser-failed started job-failed job-files-lost job-attempts-exhausted internal
        infill-failed worker-died calculation-timeout deadline-exceeded hold-not-open
    """,
    errors.UpstreamFailed: """
        upstream-answer-invalid upstream-failed upstream-key-refused upstream-unreachable upstream-timeout
    """,
    errors.StorageFull: "storage-full",
}
CODES = {code: kind for kind, codes in _CODES_OF.items() for code in codes.split()}

# For a code that this version does not list, and for answers of proxies in front of the gateway.
STATUSES: dict[int, type[errors.Problem]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    408: errors.NotStarted,
    409: errors.Conflict,
    410: errors.ReleaseGone,
    413: errors.TooLarge,
    429: errors.TooManyRequests,
    431: errors.TooLarge,
    502: errors.NotStarted,
    503: errors.NotStarted,
    504: errors.NotStarted,
    507: errors.StorageFull,
}
PROBLEM = "application/problem+json"


def problem_of(status: int, headers: Mapping[str, str], content: bytes) -> errors.Problem | None:
    """The error of an answer, or None for a success. Text that no gateway wrote is not read."""
    if status < 400:
        return None
    return _problem(status, _members(headers, content), headers)


def line_problem(members: Mapping[str, Any]) -> errors.Problem:
    """The error of a problem document that stands in a row or an event."""
    return _problem(int(members.get("status", 500)), members, {})


def _problem(status: int, members: Mapping[str, Any], headers: Mapping[str, str]) -> errors.Problem:
    default = STATUSES.get(status, errors.WorkFailed if status >= 500 else errors.Rejected)
    kind = CODES.get(str(members.get("code")), default)
    if members.get("code") not in CODES:  # words of somebody else, which may repeat the request
        members = {}
    if headers.get("x-should-retry") == "false":
        members = {"charged": True, **members}
    return kind(status, members, retry_after_s=_seconds(headers.get("retry-after")))


def _members(headers: Mapping[str, str], content: bytes) -> Mapping[str, Any]:
    kind = headers.get("content-type", "").split(";")[0].strip()
    if kind not in (PROBLEM, "application/json"):
        return {}
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    if kind == PROBLEM:
        return value
    inner = value.get("error")  # under /v1, the same facts in the shape of the providers
    if not isinstance(inner, dict):
        return {}
    return {"title": inner.get("message", ""), **{name: one for name, one in inner.items() if name != "message"}}


def _seconds(value: str | None) -> float | None:
    try:
        return None if value is None else max(0.0, float(value))
    except ValueError:
        return None
