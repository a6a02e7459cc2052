"""What is installed: models with revision and device, and what the entity technique recognises."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Response

from core.mechanisms.vectors.spec import DIMENSION_MAX, PROJECTED_MAX
from core.text.policy import ENTITIES
from gpu_workers.engine import Role
from service.auth import Caller, caller
from service.house import House, house
from service.projections import KINDS, RECIPE, projection_file
from service.tensors import MEDIA_TYPE

router = APIRouter(tags=["catalogue"], dependencies=[Depends(caller)])

Who = Annotated[Caller, Depends(caller)]
Here = Annotated[House, Depends(house)]
Dimension = Annotated[int, Path(ge=1, le=DIMENSION_MAX)]


@router.get("/models", summary="The models that run, and how")
async def models(here: Here) -> dict[str, Any]:
    roles = {role: here.engine.status(role) for role in Role}
    return {
        "models": [
            {"role": role.value, "ready": status.ready, "stage": status.stage, **status.facts}
            for role, status in roles.items()
        ],
        "projections": {
            "kinds": list(KINDS),
            "dimension_max": here.settings.vector_dimension_max,
            "output_dimension_max": PROJECTED_MAX,
            "location": "/models/projections/{kind}-{dimension}-{output_dimension}",
            "recipe": RECIPE,
        },
    }


@router.get(
    "/models/projections/{kind}-{dimension}-{output_dimension}",
    summary="A public projection of private vectors, as a safetensors file",
    response_class=Response,
)
async def projection(
    kind: Literal["orthonormal", "gaussian", "pca"],
    dimension: Dimension,
    output_dimension: Dimension,
    who: Who,
    here: Here,
) -> Response:
    content = await projection_file(
        here, tenant=who.tenant, kind=kind, dimension=dimension, output_dimension=output_dimension
    )
    return Response(content, media_type=MEDIA_TYPE)


@router.get("/entities", summary="What the entity technique recognises")
async def entities() -> dict[str, Any]:
    return {
        "entities": [
            {"name": name, "threshold": entity.threshold, "default": entity.default}
            for name, entity in ENTITIES.items()
        ]
    }
