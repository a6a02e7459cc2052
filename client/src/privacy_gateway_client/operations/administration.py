"""API keys, tenants and the log of administrative actions.

A request that makes a key or a tenant is not repeated after its answer was lost: list the keys to see what happened.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from privacy_gateway_client.answers import Account, ApiKey, NewTenantAnswer
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing
from privacy_gateway_client.exchange import call, get, given, post, put
from privacy_gateway_client.operations.reading import fetched, listed, pages, rows
from privacy_gateway_client.options import KeyOptions, TenantOptions


def list_keys(core: Core) -> Op[list[ApiKey]]:
    """The keys of the tenant. The API key needs the role `admin`, as for the calls below."""
    return (yield from rows(core, get("/keys"), "keys", ApiKey))


def create_key(core: Core, **options: Unpack[KeyOptions]) -> Op[ApiKey]:
    """Make a key; its `key` is shown this once."""
    return (yield from fetched(core, ApiKey, post("/keys", given(options), repeatable=False)))


def rotate_key(core: Core, key_id: str, *, overlap_s: int, expires_s: int | None = None) -> Op[ApiKey]:
    """Make a successor; the old key ends after `overlap_s` seconds."""
    return (yield from _rotate(core, f"/keys/{key_id}/rotate", overlap_s, expires_s))


def revoke_key(core: Core, key_id: str) -> Op[ApiKey]:
    """End a key at once."""
    return (yield from fetched(core, ApiKey, Outgoing("DELETE", f"/keys/{key_id}")))


def tenants(core: Core) -> Op[list[dict[str, Any]]]:
    """Every tenant. With the admin key, as for the calls below."""
    return (yield from listed(core, get("/admin/tenants"), "tenants"))


def create_tenant(core: Core, name: str, *, epsilon: float, **options: Unpack[TenantOptions]) -> Op[NewTenantAnswer]:
    """Open a tenant with a budget; its first key is shown this once."""
    members = {"name": name, "epsilon": epsilon, **given(options)}
    return (yield from fetched(core, NewTenantAnswer, post("/admin/tenants", members, repeatable=False)))


def tenant_budgets(core: Core, tenant: str, *, limit: int | None = None) -> Op[None]:
    """The accounts of a tenant."""
    yield from pages(core, f"/admin/tenants/{tenant}/budgets", "accounts", Account, limit=limit)


def set_limit(core: Core, tenant: str, unit: str, *, epsilon: float) -> Op[Account]:
    """Raise or lower what the account of a unit may spend, at most the epsilon that it was opened with."""
    path = f"/admin/tenants/{tenant}/budgets/{unit}/limit"
    return (yield from fetched(core, Account, put(path, {"epsilon": epsilon})))


def tenant_keys(core: Core, tenant: str) -> Op[list[ApiKey]]:
    """The keys of a tenant."""
    return (yield from rows(core, get(f"/admin/tenants/{tenant}/keys"), "keys", ApiKey))


def create_tenant_key(core: Core, tenant: str, **options: Unpack[KeyOptions]) -> Op[ApiKey]:
    """Make a key of a tenant."""
    request = post(f"/admin/tenants/{tenant}/keys", given(options), repeatable=False)
    return (yield from fetched(core, ApiKey, request))


def rotate_tenant_key(
    core: Core, tenant: str, key_id: str, *, overlap_s: int, expires_s: int | None = None
) -> Op[ApiKey]:
    """Make a successor of a tenant's key."""
    return (yield from _rotate(core, f"/admin/tenants/{tenant}/keys/{key_id}/rotate", overlap_s, expires_s))


def revoke_tenant_key(core: Core, tenant: str, key_id: str) -> Op[ApiKey]:
    """End a key of a tenant at once."""
    return (yield from fetched(core, ApiKey, Outgoing("DELETE", f"/admin/tenants/{tenant}/keys/{key_id}")))


def end_sessions(core: Core, tenant: str | None = None) -> Op[None]:
    """End every session of the dashboard for a tenant; without one, those of the operator."""
    path = "/admin/sessions/end" if tenant is None else f"/admin/tenants/{tenant}/sessions/end"
    yield from call(core.retry, post(path))


def audit(core: Core, *, limit: int | None = None) -> Op[None]:
    """The entries of the log of administrative actions."""
    yield from pages(core, "/admin/audit", "entries", None, limit=limit)


def _rotate(core: Core, path: str, overlap_s: int, expires_s: int | None) -> Op[ApiKey]:
    members = given({"overlap_s": overlap_s, "expires_s": expires_s})
    return (yield from fetched(core, ApiKey, post(path, members, repeatable=False)))
