"""Every error that the gateway raises on purpose.

    GatewayError
    ├── InvalidInput                what the caller sent cannot be used; nothing was charged
    │   ├── BadRow                  a row of a table cannot be used; carries `reason` and the row's number
    │   ├── OutOfRange              a parameter of a plan, a delta or a target outside what can be computed
    │   ├── UnsupportedEvent        an accountant cannot price this event, or not beside those it holds
    │   └── NoUniqueRoot            an Edgeworth curve crosses the delta several times or never
    ├── CalculationTimeout          an accounting calculation ran past its deadline; nothing was charged
    ├── UnitMismatch                an event met an account of another unit or adjacency
    ├── LedgerError
    │   ├── LedgerUnavailable       Redis is down, loading, read-only, full or wrongly configured
    │   │   ├── LedgerNotTrusted    the ledger does not match its seals; refused until an operator has checked it
    │   │   └── LedgerNotDurable    a setting of Redis permits the loss of acknowledged writes
    │   ├── BudgetExhausted         carries `requested` and `remaining`
    │   ├── PlanMismatch            the account admits one frozen mechanism, and this is another
    │   ├── UnknownAccount          a missing account is an error, never a fresh budget
    │   ├── TenantExists
    │   ├── TenantInactive          the tenant is suspended or closed
    │   ├── UnknownTenant
    │   ├── UnknownKey
    │   ├── IdempotencyConflict     the same key came with another body
    │   ├── ReleaseInFlight         the same key is being worked on
    │   ├── ReleaseGone             the same key ended, and its bytes are not kept
    │   ├── HoldNotOpen             commit, cancel or expire of a hold that has ended otherwise
    │   ├── UnknownJob              no such job, or another tenant's
    │   └── JobQuotaExceeded        the tenant has as many unfinished jobs as it may
    ├── BlobError                   of the blob store; carries no key, address, credential or answer of the store
    │   ├── BlobExists              a blob of that key exists; the call changed nothing
    │   ├── BlobMissing             there is no blob of that key
    │   ├── BlobCorrupt             a blob's bytes are not those that were stored; they are never used
    │   └── StoreUnavailable        the store cannot be reached, or refused the call; carries `reason`
    ├── JobNotSucceeded             the artifact of a job that has none
    ├── JobFailed                   why a job failed; carries a stable `reason`
    │   ├── BadCorpus               the corpus cannot be used; carries `line` and counts, never content
    │   └── JobFilesLost            the job's files are missing or not authentic
    ├── RoleMissing                 the API key does not have the role that the route needs; carries `role`
    ├── BrowserRefused              a browser's request is from elsewhere, or under a host name that is not allowed
    ├── SignOnFailed                the identity provider's answer opens no session; carries `reason`
    ├── UnknownName                 no such domain, model, recogniser or rule of alerts, or another tenant's
    ├── RecogniserBroken            the file of a recogniser cannot be used
    ├── PolicyEnforced              the operator's policy for this tenant admits no other mask or fill
    ├── InstalledFileBroken         the file of a domain or of a fine-tuned model cannot be used; others can
    ├── UpstreamFailed              a language model gave no answer that can be used; carries `reason`
    │   ├── UpstreamUnreachable     no connection, or it was closed before an answer began
    │   ├── UpstreamTimeout         it did not connect in time, went silent, or took too long as a whole
    │   ├── UpstreamAnswerInvalid   the answer is too large, cut off, or not of the form that was promised
    │   └── UpstreamKeyRefused      it refused the key of the operator
    ├── DataDirInUse                another gateway runs the jobs of this data directory
    ├── NotStarted                  no content was read, no noise drawn: the hold is cancelled
    │   ├── QueueFull
    │   ├── TenantLimitReached      one tenant has as much in work as one may; carries the name of the setting
    │   ├── StorageFull             the tenant's quota or the free disk space does not cover the upload
    │   ├── WorkerCold
    │   ├── ClientGone
    │   └── DeadlineBeforeStart
    └── Started                     noise may have been drawn, or the work took too long: the hold is spent
        ├── WorkerDied
        ├── TaskFailed              carries a stable `reason`, never the worker's message
        │   └── InfillFailed        the language model gave no word that can be used
        ├── TooCostly               a document took more time of a processor than one may
        └── RecogniserFailed        a recogniser broke or ran out of time: the text counts as not inspected

No error carries request text: a class has a stable `code`, a fixed `title`, and typed fields. A class whose errors
differ only in what a reader of a problem document sees has several codes.
`service/http/problems.py` holds the one table that maps them to HTTP.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from core.amounts import Amount, ArmState


class GatewayError(Exception):
    """Root of the tree. `further_codes` are codes beside `code` that an error of this class may have, with titles."""

    code = "internal"
    title = "The gateway failed."
    further_codes: ClassVar[Mapping[str, str]] = {}
    charged: bool | None = None  # None where the code says that nothing was charged

    def __init__(self, detail: str | None = None, *, code: str | None = None) -> None:
        """`detail` is a fixed sentence of the gateway's own; never pass request text. `code` is one of `further_codes`,
        or by default that of the class."""
        if code is not None:
            self.code, self.title = code, self.further_codes[code]
        self.detail = detail or self.title
        super().__init__(self.detail)

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel from a worker to the gateway; their constructors take keywords, which pickle does not."""
        return _restore, (type(self), self.__dict__)


def _restore(kind: type[GatewayError], state: dict[str, object]) -> GatewayError:
    error = kind.__new__(kind, state["detail"])
    error.__dict__.update(state)
    return error


class InvalidInput(GatewayError):
    """`code` is "subject-required" if a call names no subject and the tenant protects subjects, "subject-not-allowed"
    if it names one and the tenant has one account a unit."""

    code = "invalid-input"
    title = "The request cannot be used."
    further_codes: ClassVar[Mapping[str, str]] = {
        "subject-required": "This tenant protects subjects: name one in `subject`.",
        "subject-not-allowed": "This tenant has one account a unit: `subject` is not accepted.",
    }

    def __init__(self, detail: str | None = None, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(detail, code=code)
        self.field = field


class BadRow(InvalidInput):
    code = "bad-row"
    title = "A row of the table cannot be used."

    def __init__(
        self,
        detail: str,
        *,
        reason: str,
        row: int,
        place: str | None = None,
        faults: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`reason` is a fixed word; `row` counts from 0; `place` is a column by its number, `columns.3`, or `label`.
        They are of the first of `faults` (`core.synthesis.faults`)."""
        super().__init__(detail, field=f"rows.{row}" if place is None else f"rows.{row}.{place}")
        self.reason = reason
        self.row = row
        self.faults = tuple(faults)


class OutOfRange(InvalidInput):
    code = "out-of-range"
    title = "A number is outside the range that can be computed."


class UnsupportedEvent(InvalidInput):
    code = "unsupported-event"
    title = "This accountant cannot price this event."


class NoUniqueRoot(InvalidInput):
    code = "no-unique-root"
    title = "The estimate has no single epsilon for this delta."


class CalculationTimeout(GatewayError):
    code = "calculation-timeout"
    title = "The calculation took too long; nothing was charged."


class UnitMismatch(GatewayError):
    code = "unit-mismatch"
    title = "An event of one unit or adjacency cannot be charged to an account of another."


class LedgerError(GatewayError):
    code = "ledger-error"
    title = "The budget ledger refused."


class LedgerUnavailable(LedgerError):
    code = "ledger-unavailable"
    title = "The budget ledger cannot be reached; nothing was released."


class LedgerNotDurable(LedgerUnavailable):
    """Start-up, commands and the regular check raise it. A request gets LedgerUnavailable (`core.redis.client`)."""

    code = "ledger-not-durable"
    title = "A setting of Redis permits the loss of acknowledged writes. Nothing was released."


class LedgerNotTrusted(LedgerUnavailable):
    """Start-up, commands and the sealing round raise it. A request gets LedgerUnavailable (`core.redis.client`)."""

    code = "ledger-not-trusted"
    title = "The budget ledger does not match its seals. Nothing was released."


_BASIC_ONLY = (
    "The privacy budget does not cover this request. Only the basic arm can price a release of which an epsilon and a "
    "delta is all that is known, and this arm has too little of one of them left. Ask for less, or ask the operator "
    "for a tenant whose account has more: `tenant create --limit UNIT=EPSILON,DELTA,BASIC_DELTA` sets the part of "
    "delta that the basic arm gets. An account whose first release is of this kind gives it all of its delta."
)


class BudgetExhausted(LedgerError):
    code = "budget-exhausted"
    title = "The privacy budget does not cover this request; GET /budget/{account}/headroom says what still fits."

    def __init__(
        self,
        *,
        account: str,
        requested: Amount,
        remaining: Amount,
        arms: tuple[ArmState, ...] = (),
        basic_only: bool = False,
    ) -> None:
        """`arms` are those of the refusing filter account. `basic_only`: no other arm can price this release."""
        super().__init__(_BASIC_ONLY if basic_only and len(arms) > 1 else None)
        self.account = account
        self.requested = requested
        self.remaining = remaining
        self.arms = arms


class PlanMismatch(LedgerError):
    code = "plan-mismatch"
    title = "This account admits only the mechanism and parameters of its plan."

    def __init__(self, *, account: str) -> None:
        super().__init__()
        self.account = account


class UnknownAccount(LedgerError):
    code = "unknown-account"
    title = "There is no such account; GET /budget lists yours."


class TenantExists(LedgerError):
    code = "tenant-exists"
    title = "A tenant of this name exists."


class TenantInactive(LedgerError):
    code = "tenant-suspended"
    title = (
        "The operator has suspended this tenant: its keys only read. Nothing was released and nothing was charged. "
        "Ask the operator to resume it."
    )
    further_codes: ClassVar[Mapping[str, str]] = {
        "tenant-closed": "This tenant is closed. Its journal and its accounts stay, and it is not opened again."
    }


class UnknownTenant(LedgerError):
    code = "unknown-tenant"
    title = "There is no such tenant."


class UnknownKey(LedgerError):
    code = "unknown-key"
    title = "There is no such key; GET /keys lists those of a tenant."


class IdempotencyConflict(LedgerError):
    code = "idempotency-conflict"
    title = "This Idempotency-Key was used with another body."


class ReleaseInFlight(LedgerError):
    code = "release-in-flight"
    title = "A request with this Idempotency-Key is being worked on."


class ReleaseGone(LedgerError):
    code = "release-gone"
    title = "The release under this Idempotency-Key was charged and is not kept; use a new key."


class HoldNotOpen(LedgerError):
    code = "hold-not-open"
    title = "The hold of this release has ended."

    def __init__(self, *, state: str) -> None:
        super().__init__()
        self.state = state


class UnknownJob(LedgerError):
    code = "unknown-job"
    title = "There is no such job; GET /jobs lists yours."


class JobQuotaExceeded(LedgerError):
    code = "job-quota"
    title = "Too many unfinished jobs; wait for one to end or cancel one."


class BlobError(GatewayError):
    code = "blob-error"
    title = "The blob store failed."


class BlobExists(BlobError):
    code = "blob-exists"
    title = "The blob exists already."


class BlobMissing(BlobError):
    code = "blob-missing"
    title = "A file that the call needs is missing in the blob store; nothing was charged for it."


class BlobCorrupt(BlobError):
    code = "blob-corrupt"
    title = "A file in the blob store is not the one that was stored there; it was not used."


class StoreUnavailable(BlobError):
    code = "store-unavailable"
    title = "The blob store cannot be used."

    def __init__(self, *, reason: str = "unreachable") -> None:
        """`reason` is a fixed word, never a part of an answer."""
        super().__init__()
        self.reason = reason


class JobNotSucceeded(GatewayError):
    code = "job-not-succeeded"
    title = "The job has no artifact: it has not succeeded, or the artifact is no longer kept."


class JobFailed(GatewayError):
    """`code` is "job-attempts-exhausted" for a job whose process died too often."""

    code = "job-failed"
    title = "The job failed."
    further_codes: ClassVar[Mapping[str, str]] = {"job-attempts-exhausted": "The job's process died too often."}

    def __init__(
        self,
        detail: str | None = None,
        *,
        reason: str = "internal",
        line: int | None = None,
        count: int | None = None,
        code: str | None = None,
        faults: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`reason` is a fixed word; `line` counts from 1; `count` is of whatever the detail speaks of; `faults` are
        those of a table (`core.synthesis.faults`)."""
        super().__init__(detail, code=code)
        self.reason = reason
        self.line = line
        self.count = count
        self.faults = tuple(faults)


class BadCorpus(JobFailed):
    code = "bad-corpus"
    title = "The corpus cannot be used."


class JobFilesLost(JobFailed):
    code = "job-files-lost"
    title = "The job's files are missing or not authentic."


class RoleMissing(GatewayError):
    code = "role-missing"
    title = "This API key does not have the role that the request needs. A key with the role admin makes others."

    def __init__(self, *, role: str) -> None:
        super().__init__()
        self.role = role


class BrowserRefused(GatewayError):
    """A request of a browser's session does not come from the gateway's own pages. `code` is "host-refused" for one
    that asks for the dashboard under a name that the operator has not allowed."""

    code = "cross-site-request"
    title = "A session of the dashboard can be used by the dashboard's own pages only."
    further_codes: ClassVar[Mapping[str, str]] = {
        "host-refused": "The dashboard is not served under this host name. The setting DASHBOARD_HOSTS lists the names."
    }


class SignOnFailed(GatewayError):
    code = "sign-on-failed"
    title = "Signing in through the identity provider has failed."

    def __init__(self, *, reason: str) -> None:
        """`reason` is a fixed word."""
        super().__init__()
        self.reason = reason


class UnknownName(GatewayError):
    """By default the name is that of a domain. The further codes are those of other names."""

    code = "unknown-domain"
    title = "There is no such domain; GET /domains lists those there are."
    further_codes: ClassVar[Mapping[str, str]] = {
        "unknown-file": "There is no such file; GET /v1/files lists yours.",
        "unknown-alert-rule": "There is no such rule; GET /alerts/rules lists yours.",
        "unknown-model": "There is no such model; GET /v1/models and GET /models list those there are.",
        "unknown-recogniser": "There is no such recogniser; GET /sanitize/recognisers lists yours.",
    }


class RecogniserBroken(GatewayError):
    code = "recogniser-broken"
    title = "The file of a recogniser cannot be used, so the text was not inspected; store the recogniser again."


class PolicyEnforced(GatewayError):
    code = "policy-enforced"
    title = "The operator's policy for this tenant admits no other policy, mask or fill; GET /policies shows it."


class InstalledFileBroken(GatewayError):
    """`code` is "infill-broken" for a fine-tuned model; by default the file is that of a domain."""

    code = "domain-broken"
    title = "The domain's file cannot be used; build the domain again."
    further_codes: ClassVar[Mapping[str, str]] = {
        "infill-broken": "The fine-tuned model's file is broken or made for another INFILL; fine-tune it again."
    }


class UpstreamFailed(GatewayError):
    code = "upstream-failed"
    title = "The language model gave no answer that can be used."

    def __init__(self, *, reason: str) -> None:
        """`reason` is a fixed word, never a part of an answer."""
        super().__init__()
        self.reason = reason


class UpstreamUnreachable(UpstreamFailed):
    code = "upstream-unreachable"
    title = "The language model cannot be reached."


class UpstreamTimeout(UpstreamFailed):
    code = "upstream-timeout"
    title = "The language model did not answer in time."


class UpstreamAnswerInvalid(UpstreamFailed):
    code = "upstream-answer-invalid"
    title = "The language model's answer cannot be used."


class UpstreamKeyRefused(UpstreamFailed):
    code = "upstream-key-refused"
    title = "The language model refused the gateway's key; the operator must replace it."


class DataDirInUse(GatewayError):
    code = "data-dir-in-use"
    title = "Another gateway runs the jobs of this data directory."


class NotStarted(GatewayError):
    code = "not-started"
    title = "The work was not started; nothing was charged."


class QueueFull(NotStarted):
    code = "queue-full"
    title = "The queue is full; nothing was charged."


class TenantLimitReached(NotStarted):
    code = "tenant-limit"
    title = "This tenant has reached a limit of the gateway; nothing was charged."

    def __init__(self, *, limit: str) -> None:
        """`limit` is the name of the setting, in lower case as in `service/config/settings.py`."""
        super().__init__()
        self.limit = limit


class StorageFull(NotStarted):
    code = "storage-full"
    title = "There is too little disk space for this request; nothing was charged."

    def __init__(self, *, limit: str) -> None:
        """`limit` is the name of the setting: of the tenant's quota, of the free space that is kept, or of the local
        copies."""
        super().__init__()
        self.limit = limit


class WorkerCold(NotStarted):
    code = "worker-not-ready"
    title = "The worker is not ready; nothing was charged."


class ClientGone(NotStarted):
    code = "client-gone"
    title = "The client left before the work started; nothing was charged."


class DeadlineBeforeStart(NotStarted):
    code = "deadline-before-start"
    title = "The work did not start in time; nothing was charged."


class Started(GatewayError):
    """`code` is "deadline-exceeded" for work that took too long."""

    code = "started"
    title = "The work failed after it was started."
    further_codes: ClassVar[Mapping[str, str]] = {"deadline-exceeded": "The work took too long."}
    charged: bool | None = True  # False where the work had no price


class WorkerDied(Started):
    code = "worker-died"
    title = "The worker died while it held this request."


class TaskFailed(Started):
    code = "task-failed"
    title = "The work failed in the worker."

    def __init__(self, *, reason: str = "internal") -> None:
        super().__init__()
        self.reason = reason


class InfillFailed(TaskFailed):
    code = "infill-failed"
    title = "The language model filled nothing; nothing was released."


class TooCostly(Started):
    code = "too-costly"
    title = "A document takes too long to process. Send it in smaller parts."


class RecogniserFailed(Started):
    code = "recogniser-failed"
    title = "A recogniser failed, so the text was not fully inspected; nothing was released."

    def __init__(self, *, entity: str | None = None) -> None:
        """`entity` is a name of the gateway's own table."""
        super().__init__()
        self.entity = entity
