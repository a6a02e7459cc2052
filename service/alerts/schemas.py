"""Bodies of rules: when an alert fires, and where it goes."""

import re
from typing import Annotated, Any, Literal, NotRequired
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from service.config.providers import is_host
from service.http.answers import doc
from service.http.strict import AtMost, Strict

URL_CHARS_MAX = 2000
ACCOUNTS_MAX = 16
HISTORY_HOURS = 28 * 24
LOST_HOURS_MAX = 14 * 24  # for which the ledger keeps hourly sums

_VISIBLE = re.compile(r"[!-~]+")

Accounts = Annotated[list[Annotated[str, Field(min_length=1, max_length=128)]], AtMost(ACCOUNTS_MAX)]
JobEnd = Literal["succeeded", "failed", "cancelled"]
TenantName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


class _OfAccounts(Strict):
    accounts: Accounts | None = Field(
        None, min_length=1, description="Account ids. Default: the tenant's own accounts."
    )


class BudgetUsed(_OfAccounts):
    """An account has spent this share of its budget. Open holds do not count, because they may be refunded."""

    kind: Literal["budget_used"]
    share: float = Field(gt=0, le=1)


class RunsOut(_OfAccounts):
    """The forecast of an account says that it runs out within so many days, or it has run out."""

    kind: Literal["forecast"]
    days: float = Field(gt=0, le=750)
    case: Literal["earliest", "middle", "latest"] = Field("middle", description="Which of the forecast's three times.")


class SpentWithoutOutput(Strict):
    """At least this epsilon was spent without an output in the last hours."""

    kind: Literal["spent_without_output"]
    hours: int = Field(24, ge=1, le=LOST_HOURS_MAX)
    epsilon: float = Field(0.0, ge=0, description="0: any amount.")


class UnusualSpending(Strict):
    """An account spent more in this hour than `factor` times the most in any hour of the last 28 days."""

    kind: Literal["unusual_spending"]
    factor: float = Field(2.0, ge=1, le=1_000_000)
    epsilon: float = Field(0.0, ge=0, description="Less than this in an hour is never unusual.")


class Integrity(Strict):
    """The ledger contradicts its seals, or has not been sealed for so many seconds."""

    kind: Literal["integrity"]
    seal_age_s: int = Field(300, ge=10, le=86_400)


class JobEnded(Strict):
    """A job has ended in one of these ways."""

    kind: Literal["job_ended"]
    statuses: Annotated[list[JobEnd], AtMost(3)] = Field(["succeeded", "failed", "cancelled"], min_length=1)


When = Annotated[
    BudgetUsed | RunsOut | SpentWithoutOutput | UnusualSpending | Integrity | JobEnded, Field(discriminator="kind")
]


class Webhook(Strict):
    """Where an alert is posted. The gateway makes the secret, and shows it once."""

    url: str = Field(min_length=1, max_length=URL_CHARS_MAX)
    new_secret: bool = Field(False, description="Replace the secret of the rule's webhook.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        """A URL of which nothing but its form is checked; `WebhookSender.check` decides whether it may be called."""
        if not _VISIBLE.fullmatch(value):
            raise PydanticCustomError("webhook_url", "is not a URL of a webhook")
        try:
            parts = urlsplit(value)
            readable = parts.port != 0 and parts.scheme in ("https", "http") and not parts.fragment
        except ValueError:
            readable = False
        if (
            not readable
            or parts.username is not None
            or parts.password is not None
            or not is_host(parts.hostname or "")
        ):
            raise PydanticCustomError("webhook_url", "is not a URL of a webhook")
        return value


class RuleBody(Strict):
    """A rule of a tenant."""

    when: When
    webhook: Webhook | None = None


class OperatorRuleBody(RuleBody):
    """A rule of the operator, about these tenants or about all."""

    tenants: Annotated[list[TenantName], AtMost(1000)] | None = Field(None, min_length=1)


class RuleWebhook(TypedDict):
    """Where the alerts of a rule are posted."""

    url: Annotated[str | None, doc("The address.")]
    secret: NotRequired[Annotated[str | None, doc("What signs the deliveries; shown once, when it is new.")]]


class DeliveryResult(TypedDict):
    """The last delivery of an alert."""

    at_ms: Annotated[int, doc("When, in milliseconds since the epoch.")]
    result: Annotated[str, doc("`delivered`, or why it was not, as a word.")]


class AlertRule(TypedDict):
    """A rule of alerts."""

    name: Annotated[str, doc("The name.")]
    when: Annotated[dict[str, Any], doc("When it fires, in the members of its kind.")]
    webhook: Annotated[RuleWebhook | None, doc("Where its alerts go; null for nowhere but the list of alerts.")]
    last_delivery: Annotated[dict[str, DeliveryResult], doc("The last delivery to its `webhook`; empty before.")]
    tenants: NotRequired[Annotated[list[str] | None, doc("Whom it watches, null for all; of the operator's rules.")]]


class AlertRules(TypedDict):
    """The rules of an owner."""

    rules: Annotated[list[AlertRule], doc("The rules, by name.")]


class FiredAlert(TypedDict):
    """An alert that fired."""

    id: Annotated[str, doc("The id.")]
    rule: Annotated[str, doc("The name of its rule.")]
    kind: Annotated[str, doc("The kind of its rule.")]
    tenant: Annotated[str, doc("The tenant that it is about.")]
    target: Annotated[str, doc("What it is about, such as the id of an account or a job.")]
    status: Annotated[str, doc("`open`, or `over`.")]
    fired_ms: Annotated[int, doc("When it fired, in milliseconds since the epoch.")]
    over_ms: Annotated[int | None, doc("When it was over; null while it is open.")]
    facts: Annotated[dict[str, Any], doc("What the rule found, in members of its kind.")]


class AlertsPage(TypedDict):
    """A page of alerts."""

    alerts: Annotated[list[FiredAlert], doc("The alerts, newest first.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


class SampleResults(TypedDict):
    """What became of a sample."""

    results: Annotated[dict[str, str], doc("`delivered` or why not, by receiver; empty for a rule without one.")]
