"""LiteLLM's Generic Guardrail API: `POST /beta/litellm_basic_guardrail_api`."""

import orjson
from fastapi import APIRouter, Request, Response

from core.state.vault import Vault
from service.capability import Capability
from service.config.settings import Settings
from service.guardrail.service import Decision, GuardrailRequest, GuardrailService
from service.http.auth import GUARDRAIL_PATH, ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.exchange import disconnect_of
from service.parts import Part, Parts
from service.preparation import Preparation
from service.proxy.service import ProxyService
from service.releases.pipeline import ReleasePipeline

router = APIRouter(route_class=JsonRoute, tags=["language models"])

GUARANTEE = {"Privacy-Guarantee": "none"}


@router.post(GUARDRAIL_PATH, summary="Mask a request of LiteLLM, or restore its answer", response_model=Decision)
async def apply_guardrail(
    body: GuardrailRequest, request: Request, caller: ReleaseCallerDep, guardrails: Part[GuardrailService]
) -> Response:
    async with disconnect_of(request) as client_disconnected:
        decision = await guardrails.decision(caller, body, client_disconnected, size=len(await request.body()))
    request.state.headers |= GUARANTEE
    return Response(orjson.dumps(decision), media_type="application/json")


def _service(parts: Parts) -> GuardrailService:
    return GuardrailService(
        parts[Settings],
        proxy=parts[ProxyService],
        vault=parts[Vault],
        releases=parts[ReleasePipeline],
        preparation=parts[Preparation],
    )


CAPABILITY = Capability(name="guardrail", routers=[router], services={GuardrailService: _service})
