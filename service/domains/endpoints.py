"""The domain packs that a caller may name."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from core.ledger.names import SHARED_OWNER
from service.deps import AdminLogDep, DomainsDep
from service.http.auth import OwnerDep, ReadingOwnerDep
from service.http.body import JsonRoute
from service.http.operator_log import log_if_shared

router = APIRouter(route_class=JsonRoute, tags=["jobs"])


@router.get("/domains", summary="The domain packs for sentence-level release: installed, shared and the tenant's own")
async def domains(owner: ReadingOwnerDep, domains: DomainsDep) -> dict[str, Any]:
    if owner == SHARED_OWNER:
        return {"domains": await domains.of_owner(owner, "shared")}
    return {"domains": await domains.visible(owner)}


@router.delete(
    "/domains/{name}", status_code=204, summary="Delete a domain of the tenant, or with the admin key a shared one"
)
async def remove_domain(name: str, owner: OwnerDep, domains: DomainsDep, log: AdminLogDep) -> Response:
    await domains.remove(owner, name)
    await log_if_shared(log, owner, action="domain.delete", name=name)
    return Response(status_code=204)
