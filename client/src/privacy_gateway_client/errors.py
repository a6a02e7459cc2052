"""The error tree. No message, no attribute and no representation of an error holds text of a request.

GatewayError
├── InvalidRequest            the client cannot send the request; nothing was sent
├── BudgetCapReached          a local `budget_cap` refuses the call; nothing was sent
├── CacheUnusable             the cache cannot be opened with this key
├── ConnectionLost            no complete answer came, after all retries
├── AnswerInvalid             the answer is not one of a gateway of this version
├── StreamInterrupted         a stream of documents ended before its summary
├── JobFailed                 a job that was awaited has failed
│   └── JobCancelled
└── Problem                   the gateway answered with a problem document
    ├── Unauthorized          401
    ├── Forbidden             403
    │   ├── BudgetExhausted   an account does not cover the request
    │   ├── PlanMismatch      the account is a plan, and this is another release
    │   ├── RoleMissing       the key lacks a role
    │   └── PolicyEnforced    the operator's policy admits nothing else
    ├── NotFound              404
    ├── ReleaseInFlight       409: the same request is being processed
    ├── JobNotSucceeded       409: the job has no such file, or none yet
    ├── ReleaseGone           410: charged before, and its answer is no longer stored
    ├── TooLarge              413, 431
    ├── Rejected              400, 415, 422: the request cannot be used
    │   └── BadRow            a row of a table or corpus
    ├── TooManyRequests       429
    ├── NotStarted            503, and 504 before the start: nothing was charged
    ├── StorageFull           507
    ├── WorkFailed            5xx after the start: charged, without an answer
    └── UpstreamFailed        502, 504 of a language model

`problem_of` reads an error from an answer, by one table from the codes of problems to the classes of the tree.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privacy_gateway_client.generated.models import BudgetAmount, ProblemDocument, RefusingArm, TableFault


@dataclass(frozen=True)
class FieldError:
    """A place in the request, by the names of the API and by numbers, and what is wrong with it."""

    field: str
    reason: str


class GatewayError(Exception):
    """Base of all errors of this client.

    idempotency_key: the key of the call that failed, for a later repetition without a second charge.
    uncertain: an earlier attempt of the call was lost after it was sent, so it may have been charged.
    partial: what had arrived when a call of several parts failed, as `results.Partial`; None for other calls.
    """

    idempotency_key: str | None = None
    partial: Any = None
    uncertain = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class InvalidRequest(GatewayError):
    """The client cannot send the request. `errors` names places and reasons, never a value."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        self.errors = errors
        super().__init__(f"the request is not valid: {_places(errors)}")

    def renumber(self, indices: Sequence[int]) -> None:
        """Name the inputs by their places in the whole call; `indices`: those of the inputs that were refused."""
        InvalidRequest.__init__(
            self, tuple(FieldError(renumbered(one.field, indices), one.reason) for one in self.errors)
        )


class BudgetCapReached(GatewayError):
    """The call could charge more than a `budget_cap` has left. `unit`: of the account that would pass it."""

    def __init__(self, *, unit: str, requested: float, remaining: float) -> None:
        self.unit, self.requested, self.remaining = unit, _epsilon(requested), _epsilon(remaining)
        super().__init__(f"the cap has epsilon {remaining:g} left for the unit {unit}; the call needs {requested:g}")


class CacheUnusable(GatewayError):
    """The file of the cache was written under another key, or is no cache."""


class ConnectionLost(GatewayError):
    """No complete answer arrived. The same call with `idempotency_key` finds what was charged.

    cause: the kind of the failure, such as `ReadTimeout`.
    """

    def __init__(self, cause: str, *, sent: bool = True) -> None:
        self.cause, self.sent = cause, sent
        if sent:
            hint = "a call that charges is safe to repeat with the `idempotency_key` of this error"
        else:
            hint = "check that the gateway runs, and that the address of the client is right"
        super().__init__(f"no complete answer from the gateway ({cause}); {hint}")


class AnswerInvalid(GatewayError):
    """The answer does not have the form that this version of the client reads."""

    def __init__(self, what: str, fields: tuple[str, ...] = ()) -> None:
        self.fields = fields
        super().__init__(f"{what}: {', '.join(fields)}" if fields else what)


class StreamInterrupted(GatewayError):
    """A stream of documents ended early. `answered`: how many documents have a row; continue with the next."""

    def __init__(self, answered: int, code: str) -> None:
        self.answered, self.code = answered, code
        super().__init__(f"the stream ended after {answered} documents ({code})")


class JobFailed(GatewayError):
    """A job failed. `reason`, `line`, `count`, `faults`: facts of its problem. `spent`: what was charged."""

    def __init__(self, job: Any) -> None:
        self.job = job
        problem: ProblemDocument | None = job.problem
        self.code: str = problem.code if problem else job.status
        self.reason = problem.reason if problem else None
        self.line = problem.line if problem else None
        self.count = problem.count if problem else None
        self.faults = (problem.faults if problem else None) or []
        self.spent: BudgetAmount = job.spent
        said = f" ({problem.detail})" if problem and problem.detail else ""
        super().__init__(f"the job {job.job_id} is {job.status}: {self.reason or self.code}{said}")


class JobCancelled(JobFailed):
    """A job was cancelled."""


class Problem(GatewayError):
    """A problem document of the gateway.

    status, code, title: of the document; docs/reference/problems.md lists the codes.
    errors: what is wrong with which member.
    charged: whether the budget was charged for this request; None if the gateway does not say.
    retry_after_s: when to try again, in seconds.
    members: all further members of the document.
    """

    repeats = False  # whether the client repeats the request by itself

    def __init__(self, status: int, members: Mapping[str, Any], *, retry_after_s: float | None = None) -> None:
        self.status = status
        self.members = members
        self.code: str = _word(members.get("code"), "http-error")
        self.title = str(members.get("title", ""))
        self.retry_after_s = retry_after_s
        self.errors = tuple(
            FieldError(str(one.get("field", "")), str(one.get("message", one.get("kind", ""))))
            for one in members.get("errors", ())
            if isinstance(one, dict)
        )
        self.reason: str | None = members.get("reason")
        self.charged: bool | None = members.get("charged", False if status < 500 else None)
        super().__init__(self._message())

    def _message(self) -> str:
        places = _places(self.errors)
        return f"{self.status} {self.code}: {self.title}" + (f" ({places})" if places else "")

    def renumber(self, indices: Sequence[int]) -> None:
        """Name the inputs by their places in the whole call; `indices`: those of the inputs that were refused."""
        if self.errors:
            errors = [{"field": renumbered(one.field, indices), "message": one.reason} for one in self.errors]
            Problem.__init__(self, self.status, {**self.members, "errors": errors}, retry_after_s=self.retry_after_s)

    @property
    def may_repeat(self) -> bool:
        return self.repeats and not self.members.get("charged")


class Unauthorized(Problem):
    """No key, or one that is unknown, expired or revoked."""


class Forbidden(Problem):
    """The key, the budget or a policy does not admit the request. `account`: the one that refuses it, or ""."""

    @property
    def account(self) -> str:
        return str(self.members.get("account", ""))


class BudgetExhausted(Forbidden):
    """An account does not cover the request. Nothing was charged.

    fits: how many of the call's inputs the budget covers, where the client asked before it sent them; else None.
    """

    def _message(self) -> str:
        if not self.account:
            return super()._message()
        left, asked = _written(self.remaining), _written(self.requested)
        some = f"pass as_many_as_fit=True to release the first {self.fits} inputs, " if self.fits else ""
        return (
            f"{self.status} {self.code}: the account {self.account} has {left} left, and the request needs {asked}. "
            f"The request charged nothing. To go on, {some}send fewer inputs, choose a smaller epsilon, or ask the "
            f"operator for a larger budget."
        )

    @property
    def fits(self) -> int | None:
        return self.members.get("fits")

    @property
    def requested(self) -> BudgetAmount:
        return _amount(self.members.get("requested"))

    @property
    def remaining(self) -> BudgetAmount:
        return _amount(self.members.get("remaining"))

    @property
    def arms(self) -> tuple[RefusingArm, ...]:
        return tuple(RefusingArm.model_construct(**arm) for arm in self.members.get("arms", ()))


class PlanMismatch(Forbidden):
    """The account is a plan, and admits one mechanism at fixed parameters."""


class RoleMissing(Forbidden):
    @property
    def role(self) -> str:
        return str(self.members.get("role", ""))


class PolicyEnforced(Forbidden):
    """The operator's policy for this tenant admits no other policy, mask or fill."""


class NotFound(Problem):
    """No such path, account, tenant, key, job, model, domain or recogniser, or it belongs to somebody else."""


class ReleaseInFlight(Problem):
    """A request with the same key is being processed. The client waits for it."""

    repeats = True


class JobNotSucceeded(Problem):
    """The job has not (yet) succeeded, or its files have expired."""


class ReleaseGone(Problem):
    """The release under this key was charged before, and its answer is no longer stored."""


class TooLarge(Problem):
    """The body or the head of the request is too large."""


class Rejected(Problem):
    """The request cannot be used. Nothing was charged."""


class BadRow(Rejected):
    """A row of a table or corpus cannot be used. `row`, `line`: its number; the content is never shown. `faults`: all
    that is wrong with the rows of a table."""

    @property
    def faults(self) -> list[TableFault]:
        return [TableFault.model_validate(fault) for fault in self.members.get("faults", ())]

    @property
    def row(self) -> int | None:
        return self.members.get("row")

    @property
    def line(self) -> int | None:
        return self.members.get("line")


class TooManyRequests(Problem):
    """The tenant exceeds a limit. `limit`: the setting, if the gateway names it.

    The client repeats the request, unless the tenant has the maximum number of unfinished jobs.
    """

    repeats = True

    @property
    def may_repeat(self) -> bool:
        return self.code != "job-quota" and super().may_repeat

    @property
    def limit(self) -> str | None:
        return self.members.get("limit")


class NotStarted(Problem):
    """The work did not start. Nothing was charged, and the client tries again."""

    repeats = True


class StorageFull(Problem):
    """There is no disk space for an upload."""

    @property
    def limit(self) -> str | None:
        return self.members.get("limit")


class WorkFailed(Problem):
    """Work that had started failed. A release is charged, and has no answer."""


class UpstreamFailed(Problem):
    """A language model behind the gateway failed."""


_INPUT = re.compile(r"((?:body\.)?(?:documents|texts|input)\.)(\d+)")


def renumbered(field: str, indices: Sequence[int]) -> str:
    """The place of an input in the whole call, from its place in the part that was sent."""
    found = _INPUT.match(field)
    if found is None or int(found[2]) >= len(indices):
        return field
    return f"{found[1]}{indices[int(found[2])]}{field[found.end() :]}"


def _places(errors: Sequence[FieldError]) -> str:
    return "; ".join(f"{one.field}: {one.reason}" for one in errors)


def _written(amount: BudgetAmount) -> str:
    return f"epsilon {amount.epsilon:.9g}" + (f" and delta {amount.delta:.3g}" if amount.delta else "")


def _amount(value: Any) -> BudgetAmount:
    block = value if isinstance(value, dict) else {}
    return BudgetAmount(epsilon=float(block.get("epsilon", 0.0)), delta=float(block.get("delta", 0.0)))


def _epsilon(value: float) -> BudgetAmount:
    return BudgetAmount(epsilon=value, delta=0.0)


def _word(value: Any, default: str) -> str:
    return value if isinstance(value, str) and len(value) <= 64 else default


_CODES_OF: dict[type[Problem], str] = {
    Rejected: """
        malformed method-not-allowed unsupported-media-type host-refused invalid-input infill-broken
        recogniser-broken domain-broken subject-required subject-not-allowed out-of-range unsupported-event
        no-unique-root idempotency-conflict unit-mismatch
    """,
    Unauthorized: "unauthorized",
    Forbidden: "wrong-scope cross-site-request sign-on-failed tenant-suspended",
    RoleMissing: "role-missing",
    BudgetExhausted: "budget-exhausted",
    PlanMismatch: "plan-mismatch",
    PolicyEnforced: "policy-enforced",
    NotFound: """
        not-found unknown-account unknown-tenant unknown-key unknown-job unknown-alert-rule unknown-recogniser
        unknown-domain unknown-file unknown-model
    """,
    NotStarted: """
        request-timeout ledger-unavailable ledger-not-durable ledger-not-trusted data-dir-in-use store-unavailable
        blob-missing blob-corrupt blob-error queue-full too-many-connections worker-not-ready not-ready client-gone
        not-started deadline-before-start
    """,
    ReleaseInFlight: "release-in-flight",
    JobNotSucceeded: "job-not-succeeded",
    Problem: "tenant-exists tenant-closed blob-exists",
    ReleaseGone: "release-gone",
    TooLarge: "body-too-large headers-too-large too-costly",
    BadRow: "bad-corpus bad-row",
    TooManyRequests: "rate-limited tenant-limit job-quota",
    WorkFailed: """
        task-failed recogniser-failed started job-failed job-files-lost job-attempts-exhausted internal
        infill-failed worker-died calculation-timeout deadline-exceeded hold-not-open
    """,
    UpstreamFailed: """
        upstream-answer-invalid upstream-failed upstream-key-refused upstream-unreachable upstream-timeout
    """,
    StorageFull: "storage-full",
}
CODES = {code: kind for kind, codes in _CODES_OF.items() for code in codes.split()}

# For a code that this version does not list, and for answers of proxies in front of the gateway.
STATUSES: dict[int, type[Problem]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: NotStarted,
    409: Problem,
    410: ReleaseGone,
    413: TooLarge,
    429: TooManyRequests,
    431: TooLarge,
    502: NotStarted,
    503: NotStarted,
    504: NotStarted,
    507: StorageFull,
}
PROBLEM = "application/problem+json"


def problem_of(status: int, headers: Mapping[str, str], content: bytes) -> Problem | None:
    """The error of an answer, or None for a success. Text that no gateway wrote is not read."""
    if status < 400:
        return None
    return _problem(status, _members(headers, content), headers)


def line_problem(members: Mapping[str, Any]) -> Problem:
    """The error of a problem document that stands in a row or an event."""
    return _problem(int(members.get("status", 500)), members, {})


def _problem(status: int, members: Mapping[str, Any], headers: Mapping[str, str]) -> Problem:
    default = STATUSES.get(status, WorkFailed if status >= 500 else Rejected)
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
