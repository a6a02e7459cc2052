"""API keys, tenants and the log of administrative actions.

A request that makes a key or a tenant is not repeated after its answer was lost: list the keys to see what happened.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from privacy_gateway_client.answers import Account, ApiKey, AuditEntry, NewTenantAnswer, Tenant
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing
from privacy_gateway_client.exchange import (
    JSON_TYPE,
    body_of,
    call,
    get,
    given,
    parsed,
    parsed_json,
    post,
    validated,
    validated_answer,
)
from privacy_gateway_client.operations.paging import pages
from privacy_gateway_client.options import KeyOptions, TenantOptions
from privacy_gateway_client.requests import CurrentLimit, KeyTerms, NewTenant, Rotation


def list_keys(core: Core) -> Op[list[ApiKey]]:
    """The keys of the tenant. The API key needs the role `admin`, as for the calls below."""
    return (yield from _list(core, "/keys"))


def create_key(core: Core, **options: Unpack[KeyOptions]) -> Op[ApiKey]:
    """Make a key; its `key` is shown this once."""
    return (yield from _create(core, "/keys", dict(options)))


def rotate_key(core: Core, key_id: str, *, overlap_s: int, expires_s: int | None = None) -> Op[ApiKey]:
    """Make a successor; the old key ends after `overlap_s` seconds."""
    return (yield from _rotate(core, f"/keys/{key_id}/rotate", overlap_s, expires_s))


def revoke_key(core: Core, key_id: str) -> Op[ApiKey]:
    """End a key at once."""
    answer = yield from call(core.retry, Outgoing("DELETE", f"/keys/{key_id}"))
    return parsed(ApiKey, answer.content)


def tenants(core: Core) -> Op[list[Tenant]]:
    """Every tenant. With the admin key, as for the calls below."""
    answer = yield from call(core.retry, get("/admin/tenants"))
    return [validated_answer(Tenant, row) for row in parsed_json(answer.content)["tenants"]]


def create_tenant(core: Core, name: str, *, epsilon: float, **options: Unpack[TenantOptions]) -> Op[NewTenantAnswer]:
    """Open a tenant with a budget; its first key is shown this once."""
    body = validated(NewTenant, {"name": name, "epsilon": epsilon, **given(options)})
    answer = yield from call(core.retry, post("/admin/tenants", body, repeatable=False))
    return parsed(NewTenantAnswer, answer.content)


def tenant_budgets(core: Core, tenant: str, *, limit: int | None = None) -> Op[None]:
    """The accounts of a tenant."""
    yield from pages(core, f"/admin/tenants/{tenant}/budgets", "accounts", Account, limit=limit)


def set_limit(core: Core, tenant: str, unit: str, *, epsilon: float) -> Op[Account]:
    """Raise or lower what the account of a unit may spend, at most the epsilon that it was opened with."""
    body = validated(CurrentLimit, {"epsilon": epsilon})
    path = f"/admin/tenants/{tenant}/budgets/{unit}/limit"
    request = Outgoing("PUT", path, headers={"Content-Type": JSON_TYPE}, content=body_of(body))
    answer = yield from call(core.retry, request)
    return parsed(Account, answer.content)


def tenant_keys(core: Core, tenant: str) -> Op[list[ApiKey]]:
    """The keys of a tenant."""
    return (yield from _list(core, f"/admin/tenants/{tenant}/keys"))


def create_tenant_key(core: Core, tenant: str, **options: Unpack[KeyOptions]) -> Op[ApiKey]:
    """Make a key of a tenant."""
    return (yield from _create(core, f"/admin/tenants/{tenant}/keys", dict(options)))


def rotate_tenant_key(
    core: Core, tenant: str, key_id: str, *, overlap_s: int, expires_s: int | None = None
) -> Op[ApiKey]:
    """Make a successor of a tenant's key."""
    return (yield from _rotate(core, f"/admin/tenants/{tenant}/keys/{key_id}/rotate", overlap_s, expires_s))


def revoke_tenant_key(core: Core, tenant: str, key_id: str) -> Op[ApiKey]:
    """End a key of a tenant at once."""
    answer = yield from call(core.retry, Outgoing("DELETE", f"/admin/tenants/{tenant}/keys/{key_id}"))
    return parsed(ApiKey, answer.content)


def end_sessions(core: Core, tenant: str | None = None) -> Op[None]:
    """End every session of the dashboard for a tenant; without one, those of the operator."""
    path = "/admin/sessions/end" if tenant is None else f"/admin/tenants/{tenant}/sessions/end"
    yield from call(core.retry, post(path, None))


def audit(core: Core, *, limit: int | None = None) -> Op[None]:
    """The entries of the log of administrative actions."""
    yield from pages(core, "/admin/audit", "entries", AuditEntry, limit=limit)


def _list(core: Core, path: str) -> Op[list[ApiKey]]:
    answer = yield from call(core.retry, get(path))
    return [validated_answer(ApiKey, row) for row in parsed_json(answer.content)["keys"]]


def _create(core: Core, path: str, options: dict[str, Any]) -> Op[ApiKey]:
    body = validated(KeyTerms, given(options))
    answer = yield from call(core.retry, post(path, body, repeatable=False))
    return parsed(ApiKey, answer.content)


def _rotate(core: Core, path: str, overlap_s: int, expires_s: int | None) -> Op[ApiKey]:
    body = validated(Rotation, given({"overlap_s": overlap_s, "expires_s": expires_s}))
    answer = yield from call(core.retry, post(path, body, repeatable=False))
    return parsed(ApiKey, answer.content)
