"""`POST /v1/embeddings` and `GET /v1/models`: OpenAI's shapes, so that an OpenAI client works by a change of its URL.

Guarantee: that of the preset that `model` names. An answer is the endpoint's own, in OpenAI's shape; it holds no token
counts, which would be facts of the text beside the release.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from core.errors import InvalidInput, UnknownModel
from service.house import House, house
from service.http.auth import Caller, require_tenant
from service.http.body import JsonRoute
from service.http.strict import Strict
from service.openai.presets import Preset, SentDPPreset, VectorPreset
from service.releases.pipeline import ReleaseRequest, release
from service.sentdp import endpoints
from service.vectors import endpoints

router = APIRouter(prefix="/v1", route_class=JsonRoute, tags=["OpenAI-compatible"])

Here = Annotated[House, Depends(house)]


class EmbeddingsRequest(Strict):
    """Body of `POST /v1/embeddings`."""

    model: str = Field(description="A preset; GET /v1/models lists them.")
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, description="The preset's own dimension, or nothing.")
    user: str | None = Field(None, min_length=1, max_length=256)


@router.post("/embeddings", summary="Private embeddings, in OpenAI's shape")
async def embeddings(
    body: EmbeddingsRequest, request: Request, caller: Annotated[Caller, Depends(require_tenant)], here: Here
) -> Response:
    preset = _preset(body.model, here)
    try:
        release_request = await (
            _sentdp(preset, body, caller, here)
            if isinstance(preset, SentDPPreset)
            else _vector(preset, body, caller, here)
        )
    except InvalidInput as error:
        raise InvalidInput(error.detail, field=_field(error.field)) from None

    def render(results: list[Any], common: dict[str, Any]) -> dict[str, Any]:
        own = release_request.render(results, common)
        if not isinstance(own, dict):
            raise TypeError("a preset's endpoint answers in JSON")
        return {
            "object": "list",
            "data": [{"object": "embedding", **row} for row in own["data"]],
            "model": body.model,
            "usage": {"prompt_tokens": 0, "total_tokens": 0},
            "privacy": own["privacy"],
            "budget": own["budget"],
        }

    return await release(here, request, caller, replace(release_request, render=render))


@router.get("/models", summary="The presets", dependencies=[Depends(require_tenant)])
async def models(here: Here) -> dict[str, Any]:
    return {"object": "list", "data": [_model(name, preset) for name, preset in here.presets.items()]}


@router.get("/models/{model}", summary="One preset", dependencies=[Depends(require_tenant)])
async def one_model(model: str, here: Here) -> dict[str, Any]:
    return _model(model, _preset(model, here))


def texts(body: EmbeddingsRequest) -> list[str]:
    """The inputs. Raises InvalidInput for token arrays, for no input and for an empty one."""
    inputs = [body.input] if isinstance(body.input, str) else body.input
    if not inputs:
        raise InvalidInput("input must hold at least one text", field="input")
    found = [text for text in inputs if isinstance(text, str)]
    if len(found) < len(inputs):
        raise InvalidInput("token arrays cannot be read: send text", field="input")
    if not all(text.strip() for text in found):
        raise InvalidInput("an input must hold something", field="input")
    return found


async def _sentdp(preset: SentDPPreset, body: EmbeddingsRequest, caller: Caller, here: House) -> ReleaseRequest:
    """The release of `POST /embed/sentdp` that the preset makes of the request: one document an input."""
    own = endpoints.SentDPRequest(
        documents=[endpoints.Document(text=text) for text in texts(body)],
        epsilon=preset.epsilon,
        mechanism=preset.mechanism,
        domain=preset.domain,
        segmentation=preset.segmentation,
        window_words=preset.window_words,
        subject=_subject(preset, body),
        encoding_format=body.encoding_format or "float",
    )
    domain = await here.domains.find(caller.tenant, preset.domain)
    _check_dimensions(body, domain.info.dimension)
    return endpoints.release_of(own, domain, here)


async def _vector(preset: VectorPreset, body: EmbeddingsRequest, caller: Caller, here: House) -> ReleaseRequest:
    """The release of `POST /embed/vector` that the preset makes of the request: one vector an input."""
    own = endpoints.VectorRequest(
        texts=texts(body),
        subject=_subject(preset, body),
        encoding_format=body.encoding_format or "float",
        **preset.parameters(),
    )
    cost = await endpoints.price(own, here, caller.tenant)
    _check_dimensions(body, cost.spec.output_dimension)
    return endpoints.release_of(own, cost, caller.tenant, here)


def _field(endpoint_field: str | None) -> str:
    """The field of this request that an endpoint's field came from; what the preset gave it is `model`'s."""
    first = (endpoint_field or "").split(".")[0]
    if first in EmbeddingsRequest.model_fields:
        return first
    return "input" if first in ("documents", "texts") else "model"


def _check_dimensions(body: EmbeddingsRequest, dimension: int) -> None:
    if body.dimensions not in (None, dimension):
        raise InvalidInput(f"this model has {dimension} dimensions, and no other number", field="dimensions")


def _subject(preset: Preset, body: EmbeddingsRequest) -> str | None:
    if preset.subject == "required" and body.user is None:
        raise InvalidInput("this model needs `user`: whose text it is", field="user")
    return None if preset.subject == "none" else body.user


def _preset(name: str, here: House) -> Preset:
    if name not in here.presets:
        raise UnknownModel
    return here.presets[name]


def _model(name: str, preset: Preset) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "privacy-gateway", "preset": preset.model_dump()}
