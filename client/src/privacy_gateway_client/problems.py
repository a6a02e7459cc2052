"""From an answer to its error: one table from the codes of problems to the classes of the tree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from privacy_gateway_client import errors

CODES: dict[str, type[errors.Problem]] = {
    "malformed": errors.Rejected,
    "unauthorized": errors.Unauthorized,
    "wrong-scope": errors.Forbidden,
    "role-missing": errors.RoleMissing,
    "cross-site-request": errors.Forbidden,
    "budget-exhausted": errors.BudgetExhausted,
    "plan-mismatch": errors.PlanMismatch,
    "policy-enforced": errors.PolicyEnforced,
    "not-found": errors.NotFound,
    "unknown-account": errors.NotFound,
    "unknown-tenant": errors.NotFound,
    "unknown-key": errors.NotFound,
    "unknown-job": errors.NotFound,
    "sign-on-failed": errors.Forbidden,
    "unknown-alert-rule": errors.NotFound,
    "unknown-recogniser": errors.NotFound,
    "unknown-domain": errors.NotFound,
    "unknown-model": errors.NotFound,
    "method-not-allowed": errors.Rejected,
    "request-timeout": errors.NotStarted,
    "release-in-flight": errors.ReleaseInFlight,
    "job-not-succeeded": errors.JobNotSucceeded,
    "tenant-exists": errors.Conflict,
    "blob-exists": errors.Conflict,
    "release-gone": errors.ReleaseGone,
    "body-too-large": errors.TooLarge,
    "headers-too-large": errors.TooLarge,
    "unsupported-media-type": errors.Rejected,
    "host-refused": errors.Rejected,
    "invalid-input": errors.Rejected,
    "bad-corpus": errors.BadRow,
    "bad-row": errors.BadRow,
    "infill-broken": errors.Rejected,
    "recogniser-broken": errors.Rejected,
    "domain-broken": errors.Rejected,
    "subject-required": errors.Rejected,
    "subject-not-allowed": errors.Rejected,
    "out-of-range": errors.Rejected,
    "unsupported-event": errors.Rejected,
    "no-unique-root": errors.Rejected,
    "idempotency-conflict": errors.Rejected,
    "unit-mismatch": errors.Rejected,
    "job-quota": errors.JobQuota,
    "rate-limited": errors.TooManyRequests,
    "tenant-limit": errors.TooManyRequests,
    "too-costly": errors.TooLarge,
    "task-failed": errors.WorkFailed,
    "recogniser-failed": errors.WorkFailed,
    "started": errors.WorkFailed,
    "job-failed": errors.WorkFailed,
    "job-files-lost": errors.WorkFailed,
    "job-attempts-exhausted": errors.WorkFailed,
    "internal": errors.WorkFailed,
    "infill-failed": errors.WorkFailed,
    "upstream-answer-invalid": errors.UpstreamFailed,
    "upstream-failed": errors.UpstreamFailed,
    "upstream-key-refused": errors.UpstreamFailed,
    "upstream-unreachable": errors.UpstreamFailed,
    "upstream-timeout": errors.UpstreamFailed,
    "worker-died": errors.WorkFailed,
    "ledger-unavailable": errors.NotStarted,
    "ledger-not-durable": errors.NotStarted,
    "ledger-not-trusted": errors.NotStarted,
    "data-dir-in-use": errors.NotStarted,
    "store-unavailable": errors.NotStarted,
    "blob-missing": errors.NotStarted,
    "blob-corrupt": errors.NotStarted,
    "blob-error": errors.NotStarted,
    "queue-full": errors.NotStarted,
    "too-many-connections": errors.NotStarted,
    "worker-not-ready": errors.NotStarted,
    "not-ready": errors.NotStarted,
    "client-gone": errors.NotStarted,
    "not-started": errors.NotStarted,
    "calculation-timeout": errors.WorkFailed,
    "deadline-before-start": errors.NotStarted,
    "deadline-exceeded": errors.WorkFailed,
    "hold-not-open": errors.WorkFailed,
    "storage-full": errors.StorageFull,
}

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
