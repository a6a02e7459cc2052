"""`POST /v1/embeddings` and `GET /v1/models`: OpenAI's shapes, so that an OpenAI client works by a change of its URL.

Guarantee: that of the preset that `model` names. An answer holds no token counts, which would be facts of the text
beside the release.
"""

from fastapi import APIRouter, Request, Response

from service.capability import Capability, PresetPricing
from service.config.settings import Settings
from service.http.answers import IDEMPOTENT
from service.http.auth import ReadCallerDep, ReleaseCallerDep
from service.http.body import JsonRoute, take_large_place
from service.openai.presets import load_presets
from service.openai.service import EmbeddingsRequest, OpenAIEmbeddings, OpenAIModel, OpenAIModels, OpenAIService
from service.parts import Part, Parts
from service.proxy.upstreams import Upstreams
from service.releases.pipeline import ReleasePipeline
from service.sentdp.service import SentDPService
from service.vectors.service import VectorService

router = APIRouter(prefix="/v1", route_class=JsonRoute, tags=["OpenAI-compatible"])


@router.post(
    "/embeddings",
    summary="Private embeddings, in OpenAI's shape",
    response_model=OpenAIEmbeddings,
    openapi_extra=IDEMPOTENT,
)
async def create_embeddings(
    body: EmbeddingsRequest,
    request: Request,
    caller: ReleaseCallerDep,
    openai: Part[OpenAIService],
    releases: Part[ReleasePipeline],
) -> Response:
    await take_large_place(request, caller.tenant, texts=body.size)
    return await releases.release(request, caller, await openai.release_request(caller.tenant, body))


@router.get("/models", summary="The presets, and the upstreams' models")
async def list_presets(openai: Part[OpenAIService], caller: ReadCallerDep) -> OpenAIModels:
    return {"object": "list", "data": openai.models(caller.tenant)}


@router.get("/models/{model:path}", summary="One preset, or one model of an upstream")
async def get_preset(model: str, openai: Part[OpenAIService], caller: ReadCallerDep) -> OpenAIModel:
    return openai.model(model, caller.tenant)


def _service(parts: Parts) -> OpenAIService:
    return OpenAIService(
        load_presets(parts[Settings]),
        sentdp=parts[SentDPService],
        vectors=parts[VectorService],
        upstreams=parts[Upstreams],
    )


CAPABILITY = Capability(
    name="openai",
    routers=[router],
    services={OpenAIService: _service, PresetPricing: lambda parts: parts[OpenAIService]},
)
