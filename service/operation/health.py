"""Liveness, readiness and metrics. No key is needed; nothing of a tenant's text is shown."""

from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from core.errors import GatewayError
from service.http import problems
from service.operation.readiness import Readiness
from service.operation.scrape import Scrapes
from service.parts import Part

router = APIRouter(tags=["operation"])
metrics_router = APIRouter(tags=["operation"])


@router.get("/livez", summary="The process answers")
async def livez() -> dict[str, str]:
    return {"status": "alive"}


@router.get("/readyz", summary="Workers are warm and right, the ledger takes a durable write", response_model=None)
async def readyz(readiness: Part[Readiness]) -> dict[str, Any] | Response:
    stages = readiness.stages()
    try:
        await readiness.check()
    except GatewayError as error:
        return problems.problem(503, "not-ready", "The gateway is not ready.", cause=error.code, workers=stages)
    return {"status": "ready", "workers": stages}


@metrics_router.get("/metrics", summary="Prometheus metrics")
async def metrics(scrapes: Part[Scrapes]) -> Response:
    return Response(await scrapes.text(), media_type=CONTENT_TYPE_LATEST)
