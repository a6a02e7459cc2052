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
