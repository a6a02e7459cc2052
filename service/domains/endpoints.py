"""The domain packs that a caller may name."""

from typing import Any

from fastapi import APIRouter, Response

from core.ledger.hash_chain.admin_log import AdminLog
from core.redis.names import SHARED_OWNER
from service.capability import Capability
from service.config.settings import Settings
from service.domains.job_kind import DomainKind
from service.domains.store import Domains
from service.files.stored import StoredFiles
from service.http.auth import OwnerDep, ReadingOwnerDep, log_if_shared
from service.http.body import JsonRoute
from service.parts import Part, Parts
from service.workers import Workers

router = APIRouter(route_class=JsonRoute, tags=["jobs"])


@router.get("/domains", summary="The domain packs for sentence-level release: installed, shared and the tenant's own")
async def domains(owner: ReadingOwnerDep, domains: Part[Domains]) -> dict[str, Any]:
    if owner == SHARED_OWNER:
        return {"domains": await domains.of_owner(owner, "shared")}
    return {"domains": await domains.visible(owner)}


@router.delete(
    "/domains/{name}", status_code=204, summary="Delete a domain of the tenant, or with the admin key a shared one"
)
async def remove_domain(name: str, owner: OwnerDep, domains: Part[Domains], log: Part[AdminLog]) -> Response:
    await domains.remove(owner, name)
    await log_if_shared(log, owner, action="domain.delete", name=name)
    return Response(status_code=204)


def _domains(parts: Parts) -> Domains:
    workers = parts[Workers]
    return Domains(parts[StoredFiles], parts[Settings].domain_packs_dir, loaded=lambda: workers.loaded_domains)


CAPABILITY = Capability(
    name="domains",
    routers=[router],
    services={Domains: _domains},
    job_kinds=lambda parts: [DomainKind(parts[Settings], files=parts[StoredFiles])],
)
