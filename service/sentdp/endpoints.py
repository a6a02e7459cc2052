"""`POST /embed/sentdp`: sentence-private document embeddings. The guarantee: `service/sentdp/service.py`."""

from fastapi import APIRouter, Request, Response

from service.capability import Capability, Estimated
from service.config.settings import Settings
from service.domains.store import DomainStore
from service.http.answers import IDEMPOTENT
from service.http.auth import ReleaseCallerDep
from service.http.body import JsonRoute, take_large_place
from service.parts import Part, Parts
from service.preparation import Preparation
from service.releases.pipeline import ReleasePipeline
from service.sentdp.service import DocumentEmbeddings, SentDPRequest, SentDPService, typical
from service.workers import Workers

router = APIRouter(route_class=JsonRoute, tags=["embeddings"])


@router.post(
    "/embed/sentdp",
    summary="Sentence-private document embeddings",
    response_model=DocumentEmbeddings,
    openapi_extra=IDEMPOTENT,
)
async def embed_sentdp(
    body: SentDPRequest,
    request: Request,
    caller: ReleaseCallerDep,
    sentdp: Part[SentDPService],
    releases: Part[ReleasePipeline],
) -> Response:
    await take_large_place(request, caller.tenant, texts=len(body.documents))
    return await releases.release(request, caller, await sentdp.release_request(caller.tenant, body))


def _service(parts: Parts) -> SentDPService:
    return SentDPService(
        parts[Settings], domains=parts[DomainStore], workers=parts[Workers], preparation=parts[Preparation]
    )


CAPABILITY = Capability(
    name="sentdp",
    routers=[router],
    services={SentDPService: _service},
    prices=lambda parts: [
        Estimated("sentdp", SentDPRequest, {"documents"}, parts[SentDPService], typical, "embed/sentdp")
    ],
)
