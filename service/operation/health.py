"""Is it alive, is it ready, what does it measure. No key needed; nothing of a tenant's text is there to see."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from core.errors import GatewayError
from service.house import House, house
from service.http import problems

router = APIRouter(tags=["operation"])

Here = Annotated[House, Depends(house)]


@router.get("/livez", summary="The process answers")
async def livez() -> dict[str, str]:
    return {"status": "alive"}


@router.get("/readyz", summary="Workers are warm and right, the ledger takes a durable write", response_model=None)
async def readyz(here: Here) -> dict[str, Any] | Response:
    stages = {role.value: here.engine.status(role).stage for role in here.engine.roles}
    try:
        await here.check_ready()
    except GatewayError as error:
        return problems.problem(503, "not-ready", "The gateway is not ready.", cause=error.code, workers=stages)
    return {"status": "ready", "workers": stages}


@router.get("/metrics", summary="Prometheus metrics")
async def metrics() -> Response:
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
