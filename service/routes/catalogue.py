"""What is installed: models with revision and device, and what the entity technique recognises."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from core.text.policy import ENTITIES
from gpu_workers.engine import Role
from service.auth import caller
from service.house import House, house

router = APIRouter(tags=["catalogue"], dependencies=[Depends(caller)])

Here = Annotated[House, Depends(house)]


@router.get("/models", summary="The models that run, and how")
async def models(here: Here) -> dict[str, Any]:
    roles = {role: here.engine.status(role) for role in Role}
    return {
        "models": [
            {"role": role.value, "ready": status.ready, "stage": status.stage, **status.facts}
            for role, status in roles.items()
        ]
    }


@router.get("/entities", summary="What the entity technique recognises")
async def entities() -> dict[str, Any]:
    return {
        "entities": [
            {"name": name, "threshold": entity.threshold, "default": entity.default}
            for name, entity in ENTITIES.items()
        ]
    }
