"""What is installed: models with revision and device, and what the entity technique recognises."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Response

from core.mechanisms.vectors.spec import DIMENSION_MAX, PROJECTED_MAX
from core.text.languages import ENGLISH, FORM_ENTITIES, LANGUAGES
from core.text.policy import ENTITIES, supported
from gpu_workers.engine.protocol import RoleStatus
from service.auth import Caller, require_tenant
from service.house import House, house
from service.projections import KINDS, RECIPE, projection_file
from service.settings import FINETUNE_BUNDLED
from service.tensors import MEDIA_TYPE

router = APIRouter(tags=["catalogue"], dependencies=[Depends(require_tenant)])

Who = Annotated[Caller, Depends(require_tenant)]
Here = Annotated[House, Depends(house)]
Dimension = Annotated[int, Path(ge=1, le=DIMENSION_MAX)]


@router.get("/models", summary="The models that run, and how")
async def models(caller: Who, here: Here) -> dict[str, Any]:
    roles = {role: here.engine.status(role) for role in here.engine.roles}
    return {
        "models": [
            {"role": role.value, "ready": status.ready, "stage": status.stage, **_facts(status, caller, here)}
            for role, status in roles.items()
        ],
        "finetune": [FINETUNE_BUNDLED, *here.settings.finetune_models],
        "fine_tuned": await here.own_models.of_tenant(caller.tenant),
        "projections": {
            "kinds": list(KINDS),
            "dimension_max": here.settings.vector_dimension_max,
            "output_dimension_max": PROJECTED_MAX,
            "location": "/models/projections/{kind}-{dimension}-{output_dimension}",
            "recipe": RECIPE,
        },
    }


@router.delete("/models/fine-tuned/{name}", status_code=204, summary="Delete a fine-tuned model of the tenant")
async def remove_model(name: str, caller: Who, here: Here) -> Response:
    await here.own_models.remove(caller.tenant, name)
    return Response(status_code=204)


def _facts(status: RoleStatus, caller: Caller, here: House) -> dict[str, Any]:
    """What a worker reports of itself, without the allow lists of other tenants."""
    facts = status.facts.as_json() if status.facts else {}
    if "allow_lists" in facts:
        facts["allow_lists"] = list(here.policies.allow_lists(caller.tenant))
    return facts


@router.get(
    "/models/projections/{kind}-{dimension}-{output_dimension}",
    summary="A public projection of private vectors, as a safetensors file",
    response_class=Response,
)
async def projection(
    kind: Literal["orthonormal", "gaussian", "pca"],
    dimension: Dimension,
    output_dimension: Dimension,
    caller: Who,
    here: Here,
) -> Response:
    content = await projection_file(
        here, tenant=caller.tenant, kind=kind, dimension=dimension, output_dimension=output_dimension
    )
    return Response(content, media_type=MEDIA_TYPE)


@router.get("/entities", summary="What the entity technique recognises")
async def entities(here: Here) -> dict[str, Any]:
    rows = [(name, ENTITIES[name]) for name in supported(here.tagger_types)]
    return {
        "entities": [
            {
                "name": name,
                "threshold": entity.threshold,
                "default": entity.default,
                "languages": list(LANGUAGES) if name in FORM_ENTITIES else [ENGLISH],
                "recogniser": "tagger" if entity.tagged else "pattern",
            }
            for name, entity in rows
        ]
    }
