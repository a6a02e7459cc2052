"""Answers about tenants and their keys, as types."""

from typing import Annotated

from typing_extensions import TypedDict

from service.http.answers import doc


class TenantKey(TypedDict):
    """A new tenant and its first key."""

    tenant: Annotated[str, doc("The name of the tenant.")]
    key: Annotated[str, doc("The key itself, which is shown once.")]
    key_id: Annotated[str, doc("The id of the key.")]


class TenantFacts(TypedDict):
    """A tenant."""

    name: Annotated[str, doc("The name.")]
    mode: Annotated[str, doc("`tenant` for one account a unit, or `subject` for accounts of each subject.")]
    created_ms: Annotated[int, doc("When it was opened, in milliseconds since the epoch.")]
    state: Annotated[str, doc("`active`, `suspended`, `closing` or `closed`.")]


class TenantList(TypedDict):
    """All tenants."""

    tenants: Annotated[list[TenantFacts], doc("The tenants, by name.")]


class AccountOutlook(TypedDict):
    """An account of a tenant that has spent something, and when it ends."""

    account: Annotated[str, doc("The id of the account.")]
    unit: Annotated[str, doc("The unit.")]
    spent: Annotated[float, doc("The epsilon that is spent or held.")]
    remaining: Annotated[float, doc("The largest epsilon that one more pure release may have.")]
    used_share: Annotated[float, doc("The used share, from 0 to 1: at 1 every request is refused.")]
    per_day: Annotated[float, doc("The mean epsilon of a day, over the last `days` days.")]
    ends_ms: Annotated[int | None, doc("When it ends at this pace, by estimate; null if not in 100 years.")]


class TenantOutlook(TenantFacts):
    """A tenant with what it has spent, and when it ends."""

    accounts: Annotated[list[AccountOutlook], doc("Its own accounts that have spent something.")]
    ends_ms: Annotated[int | None, doc("When the first of them ends, by estimate; null if none does.")]
    refused: Annotated[list[int], doc("Requests that its budget refused on each of the last `days` days, today last.")]


class OutlookPage(TypedDict):
    """A page of all tenants."""

    at_ms: Annotated[int, doc("The time of the answer, in milliseconds since the epoch.")]
    days: Annotated[int, doc("Over how many days pace and refusals are taken.")]
    tenants: Annotated[list[TenantOutlook], doc("The tenants, by name.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


class LimitEffect(TypedDict):
    """What another current limit would change."""

    account: Annotated[str, doc("The id of the account.")]
    guarantee: Annotated[float, doc("The epsilon that the account was opened with: the largest current limit.")]
    spent: Annotated[float, doc("The epsilon that is spent or held.")]
    remaining: Annotated[float, doc("The largest epsilon that one more pure release may have now.")]
    remaining_then: Annotated[float, doc("The same with the other limit: at 0, everything is refused.")]
    mean_epsilon: Annotated[float | None, doc("The mean epsilon of the releases so far; null before the first.")]
    requests: Annotated[int | None, doc("How many more releases of the mean cost fit now; null before the first.")]
    requests_then: Annotated[int | None, doc("The same with the other limit.")]


class KeyFacts(TypedDict):
    """An API key, without its secret."""

    key_id: Annotated[str, doc("The id, which the journal and the log of the operator show.")]
    tenant: Annotated[str, doc("The tenant whose key it is.")]
    label: Annotated[str, doc("The name that its creator gave.")]
    purpose: Annotated[str, doc("What its releases are for, as its creator says.")]
    recipient: Annotated[str, doc("Who receives its releases, as its creator says.")]
    roles: Annotated[list[str], doc("What it may do: of `admin`, `jobs`, `read` and `release`, sorted.")]
    created_ms: Annotated[int, doc("When it was made, in milliseconds since the epoch.")]
    expires_ms: Annotated[int | None, doc("When it ends by itself; null for never.")]
    revoked_ms: Annotated[int | None, doc("When it was revoked; null if it was not.")]
    last_used_ms: Annotated[int | None, doc("When it was last used, to a minute or so; null before.")]


class KeySecret(KeyFacts):
    """A new API key."""

    key: Annotated[str, doc("The key itself, which is shown once.")]


class KeyList(TypedDict):
    """The keys of a tenant."""

    keys: Annotated[list[KeyFacts], doc("The keys, the revoked ones included.")]
