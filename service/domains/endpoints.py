"""The domain packs that a caller may name."""

from typing import Annotated, Any, NotRequired, cast

from fastapi import APIRouter, Response
from typing_extensions import TypedDict

from core.ledger.hash_chain.admin_log import AdminLog
from core.redis.names import SHARED_OWNER
from service.capability import Capability
from service.config.settings import Settings
from service.domains.job_kind import DomainKind
from service.domains.store import DomainStore
from service.files.stored import StoredFiles
from service.http.answers import doc
from service.http.auth import OwnerDep, ReadingOwnerDep, log_if_shared
from service.http.body import JsonRoute
from service.parts import Part, Parts
from service.workers import Workers

router = APIRouter(route_class=JsonRoute, tags=["jobs"])


class DomainFacts(TypedDict):
    """A domain pack. One whose file cannot be used has its first three members only."""

    name: Annotated[str, doc("The name that a request gives as `domain`.")]
    scope: Annotated[str, doc("`installed`, `shared` by the operator, or of the `tenant`.")]
    usable: Annotated[bool, doc("Whether its file can be used.")]
    encoder: NotRequired[Annotated[str, doc("The encoder whose vectors it takes.")]]
    encoder_fingerprint: NotRequired[Annotated[str, doc("A digest of the weights of that encoder.")]]
    dimension: NotRequired[Annotated[int, doc("The dimension of the vectors.")]]
    rank: NotRequired[Annotated[int, doc("The dimension of the space of its codes.")]]
    candidates: NotRequired[Annotated[int, doc("How many candidates it has.")]]
    projections: NotRequired[Annotated[int, doc("How many projections it has.")]]
    source: NotRequired[Annotated[str, doc("The public corpus that it was made of.")]]
    licence: NotRequired[Annotated[str, doc("The licence of that corpus.")]]
    packs: NotRequired[Annotated[list[str], doc("The packs among which it chooses; of `auto` alone.")]]
    default: NotRequired[Annotated[str, doc("The pack where the text does not decide; of `auto` alone.")]]
    default_percent: NotRequired[Annotated[int, doc("How much weight that pack has; of `auto` alone.")]]
    evidence_min: NotRequired[Annotated[int, doc("The least epsilon of all votes for a choice; of `auto` alone.")]]
    centroids: NotRequired[Annotated[int, doc("How many centroids the choice uses; of `auto` alone.")]]
    knobs: NotRequired[Annotated[list[dict[str, Any]], doc("The parameters of its noise, by epsilon.")]]


class DomainList(TypedDict):
    """Domain packs."""

    domains: Annotated[list[DomainFacts], doc("The domains, by name.")]


@router.get("/domains", summary="The domain packs for sentence-level release: installed, shared and the tenant's own")
async def list_domains(owner: ReadingOwnerDep, domains: Part[DomainStore]) -> DomainList:
    found = await (domains.of_owner(owner, "shared") if owner == SHARED_OWNER else domains.visible(owner))
    return {"domains": cast(list[DomainFacts], found)}


@router.delete(
    "/domains/{name}", status_code=204, summary="Delete a domain of the tenant, or with the admin key a shared one"
)
async def delete_domain(name: str, owner: OwnerDep, domains: Part[DomainStore], log: Part[AdminLog]) -> Response:
    await domains.remove(owner, name)
    await log_if_shared(log, owner, action="domain.delete", name=name)
    return Response(status_code=204)


def _domains(parts: Parts) -> DomainStore:
    loaded = parts[Workers].loaded_domains
    return DomainStore(parts[StoredFiles], parts[Settings].domain_packs_dir, loaded=loaded)


CAPABILITY = Capability(
    name="domains",
    routers=[router],
    services={DomainStore: _domains},
    job_kinds=lambda parts: [DomainKind(parts[Settings], files=parts[StoredFiles])],
)
