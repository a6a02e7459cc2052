"""The contracts of Presidio's analyzer and anonymizer services: its clients need another address and a key.

There is no guarantee, which the header `Privacy-Guarantee` says. Errors are those of the gateway.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from service.capability import Capability
from service.config.settings import Settings
from service.http.auth import READER, Caller, ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.exchange import disconnect_of
from service.isolation import Isolation
from service.parts import Part, Parts
from service.preparation import Preparation
from service.presidio.replacing import ANONYMIZERS, DEANONYMIZERS, ReplacedText
from service.presidio.schemas import AnalyzeRequest, AnalyzerFind, AnonymizedText, AnonymizeRequest, DeanonymizeRequest
from service.presidio.service import PresidioService
from service.releases.pipeline import ReleasePipeline
from service.sanitize.policies import Policies
from service.sanitize.service import SanitizeService
from service.workers import Workers

router = APIRouter(route_class=JsonRoute, tags=["Presidio"])

GUARANTEE = {"Privacy-Guarantee": "none"}
Language = Annotated[str | None, Query(max_length=16, description="A language of GET /entities.")]


@router.post(
    "/analyze",
    summary="Find personal data in texts, by the contract of Presidio's analyzer",
    response_model=list[AnalyzerFind] | list[list[AnalyzerFind]],
)
async def analyze(
    body: AnalyzeRequest, request: Request, caller: ReleaseCallerDep, presidio: Part[PresidioService]
) -> Response:
    async with disconnect_of(request) as client_disconnected:
        found = await presidio.analyzed(caller, body, client_disconnected)
    shown = found[0] if isinstance(body.text, str) else found
    return _answer(request, await presidio.encoded(caller.tenant, shown, count=sum(map(len, found))))


@router.post(
    "/anonymize",
    summary="Replace finds in texts, by the contract of Presidio's anonymizer",
    response_model=AnonymizedText | list[AnonymizedText],
)
async def anonymize(
    body: AnonymizeRequest, request: Request, caller: ReleaseCallerDep, presidio: Part[PresidioService]
) -> Response:
    results = await presidio.anonymized(caller.tenant, body)
    return await _replaced(request, caller, presidio, results, is_one=isinstance(body.text, str))


@router.post(
    "/deanonymize",
    summary="Decrypt places of texts, by the contract of Presidio's anonymizer",
    response_model=AnonymizedText | list[AnonymizedText],
)
async def deanonymize(
    body: DeanonymizeRequest, request: Request, caller: ReleaseCallerDep, presidio: Part[PresidioService]
) -> Response:
    results = await presidio.deanonymized(caller.tenant, body)
    return await _replaced(request, caller, presidio, results, is_one=isinstance(body.text, str))


@router.get("/supportedentities", summary="The types that POST /analyze finds", dependencies=[READER])
async def supported_entities(presidio: Part[PresidioService], language: Language = None) -> list[str]:
    return presidio.entities(language)


@router.get("/recognizers", summary="The recognisers of POST /analyze", dependencies=[READER])
async def recognizers(presidio: Part[PresidioService], language: Language = None) -> list[str]:
    return presidio.recognisers(language)


@router.get("/anonymizers", summary="The operators of POST /anonymize", dependencies=[READER])
async def anonymizers() -> list[str]:
    return list(ANONYMIZERS)


@router.get("/deanonymizers", summary="The operators of POST /deanonymize", dependencies=[READER])
async def deanonymizers() -> list[str]:
    return list(DEANONYMIZERS)


async def _replaced(
    request: Request, caller: Caller, presidio: PresidioService, results: list[ReplacedText], *, is_one: bool
) -> Response:
    shown = [{"text": each.text, "items": each.items} for each in results]
    count = sum(len(each.items) for each in results)
    return _answer(request, await presidio.encoded(caller.tenant, shown[0] if is_one else shown, count=count))


def _answer(request: Request, content: bytes) -> Response:
    request.state.headers |= GUARANTEE
    return Response(content, media_type="application/json")


def _service(parts: Parts) -> PresidioService:
    return PresidioService(
        parts[Settings],
        policies=parts[Policies],
        sanitize=parts[SanitizeService],
        releases=parts[ReleasePipeline],
        workers=parts[Workers],
        preparation=parts[Preparation],
        isolation=parts[Isolation],
    )


CAPABILITY = Capability(name="presidio", routers=[router], services={PresidioService: _service})
