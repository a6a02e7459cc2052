"""API keys: by the operator for any tenant under `/admin`, and by a tenant's `admin` keys for its own tenant.

The text of a key is shown once, when it is created. Only its HMAC is stored.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from core.state.keystore import LIFE_S_MAX, OVERLAP_S_MAX, KeyRole, KeyStore, NewKey
from service.http.auth import OPERATOR, AdminCallerDep, Caller
from service.http.body import JsonRoute
from service.http.operator_log import BY_OPERATOR
from service.http.strict import AtMost, Strict
from service.parts import Part
from service.tenants.service import key_block

operator_router = APIRouter(prefix="/admin", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])
tenant_router = APIRouter(route_class=JsonRoute, tags=["keys"])

Lifetime = Annotated[int | None, Field(ge=1, le=LIFE_S_MAX, description="Seconds until the key expires.")]


class KeyTerms(Strict):
    """Body for a new key. Without it the key has the roles `release`, `read` and `jobs` and does not expire."""

    roles: Annotated[list[Annotated[KeyRole, Field(strict=False)]], AtMost(len(KeyRole))] | None = Field(
        None, min_length=1
    )
    expires_s: Lifetime = None
    label: str = Field("", max_length=64)


class Rotation(Strict):
    """Body of a rotation. Without `expires_s` the new key lives as long as the old one was meant to."""

    overlap_s: int = Field(ge=0, le=OVERLAP_S_MAX, description="Seconds until the old key ends.")
    expires_s: Lifetime = None


@operator_router.post("/tenants/{tenant}/keys", status_code=201, summary="A further key of a tenant; shown once")
async def create_key(tenant: str, keys: Part[KeyStore], body: KeyTerms | None = None) -> dict[str, Any]:
    return await _create(keys, tenant, body, by=BY_OPERATOR)


@operator_router.get("/tenants/{tenant}/keys", summary="The keys of a tenant, without their secrets")
async def list_keys(tenant: str, keys: Part[KeyStore]) -> dict[str, Any]:
    return {"keys": [key_block(key) for key in await keys.list(tenant)]}


@operator_router.post(
    "/tenants/{tenant}/keys/{key_id}/rotate", status_code=201, summary="Replace a key; the old one ends after a while"
)
async def rotate_key(tenant: str, key_id: str, body: Rotation, keys: Part[KeyStore]) -> dict[str, Any]:
    return await _rotate(keys, tenant, key_id, body, by=BY_OPERATOR)


@operator_router.delete("/tenants/{tenant}/keys/{key_id}", summary="Revoke a key")
async def revoke_key(tenant: str, key_id: str, keys: Part[KeyStore]) -> dict[str, Any]:
    return key_block(await keys.revoke(tenant, key_id, by=BY_OPERATOR))


@tenant_router.post("/keys", status_code=201, summary="A further key of the calling tenant; shown once")
async def create_own_key(caller: AdminCallerDep, keys: Part[KeyStore], body: KeyTerms | None = None) -> dict[str, Any]:
    return await _create(keys, caller.tenant, body, by=_by(caller))


@tenant_router.get("/keys", summary="The keys of the calling tenant, without their secrets")
async def list_own_keys(caller: AdminCallerDep, keys: Part[KeyStore]) -> dict[str, Any]:
    return {"keys": [key_block(key) for key in await keys.list(caller.tenant)]}


@tenant_router.post(
    "/keys/{key_id}/rotate", status_code=201, summary="Replace a key of the calling tenant; the old one ends later"
)
async def rotate_own_key(key_id: str, body: Rotation, caller: AdminCallerDep, keys: Part[KeyStore]) -> dict[str, Any]:
    return await _rotate(keys, caller.tenant, key_id, body, by=_by(caller))


@tenant_router.delete("/keys/{key_id}", summary="Revoke a key of the calling tenant")
async def revoke_own_key(key_id: str, caller: AdminCallerDep, keys: Part[KeyStore]) -> dict[str, Any]:
    return key_block(await keys.revoke(caller.tenant, key_id, by=_by(caller)))


def _by(caller: Caller) -> str:
    return f"key:{caller.key_id}"


async def _create(keys: KeyStore, tenant: str, body: KeyTerms | None, *, by: str) -> dict[str, Any]:
    terms = body or KeyTerms()
    roles = {} if terms.roles is None else {"roles": terms.roles}
    return _shown(await keys.create(tenant, by=by, expires_s=terms.expires_s, label=terms.label, **roles))


async def _rotate(keys: KeyStore, tenant: str, key_id: str, body: Rotation, *, by: str) -> dict[str, Any]:
    found = await keys.rotate(tenant, key_id, by=by, overlap_s=body.overlap_s, expires_s=body.expires_s)
    return _shown(found)


def _shown(new: NewKey) -> dict[str, Any]:
    return {"key": new.key, **key_block(new.facts)}
