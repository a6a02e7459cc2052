"""`POST /v1/embeddings` and `GET /v1/models`: OpenAI's shapes, so that an OpenAI client works by a change of its URL.

Guarantee: that of the preset that `model` names. An answer holds no token counts, which would be facts of the text
beside the release.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from service.deps import OpenAIDep, ReleasesDep
from service.http.auth import ReadCallerDep, ReleaseCallerDep
from service.http.body import JsonRoute
from service.openai.schemas import EmbeddingsRequest

router = APIRouter(prefix="/v1", route_class=JsonRoute, tags=["OpenAI-compatible"])


@router.post("/embeddings", summary="Private embeddings, in OpenAI's shape")
async def embeddings(
    body: EmbeddingsRequest, request: Request, caller: ReleaseCallerDep, openai: OpenAIDep, releases: ReleasesDep
) -> Response:
    return await releases.release(request, caller, await openai.release_request(caller.tenant, body))


@router.get("/models", summary="The presets, and the upstreams' models")
async def models(openai: OpenAIDep, caller: ReadCallerDep) -> dict[str, Any]:
    return {"object": "list", "data": openai.models(caller.tenant)}


@router.get("/models/{model:path}", summary="One preset, or one model of an upstream")
async def one_model(model: str, openai: OpenAIDep, caller: ReadCallerDep) -> dict[str, Any]:
    return openai.model(model, caller.tenant)
