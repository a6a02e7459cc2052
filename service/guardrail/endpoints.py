"""LiteLLM's Generic Guardrail API: `POST /beta/litellm_basic_guardrail_api`."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from service.deps import GuardrailDep
from service.guardrail.schemas import GuardrailRequest
from service.http.auth import GUARDRAIL_PATH, ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.disconnect import disconnect_of

router = APIRouter(route_class=JsonRoute, tags=["language models"])

GUARANTEE = {"Privacy-Guarantee": "none"}


@router.post(GUARDRAIL_PATH, summary="Mask a request of LiteLLM, or restore its answer", response_model=None)
async def guardrail(
    body: GuardrailRequest, request: Request, caller: ReleaseCallerDep, guardrails: GuardrailDep
) -> Response:
    async with disconnect_of(request) as client_disconnected:
        decision: dict[str, Any] = await guardrails.decision(
            caller, body, client_disconnected, size=len(await request.body())
        )
    request.state.headers |= GUARANTEE
    return Response(orjson.dumps(decision), media_type="application/json")
