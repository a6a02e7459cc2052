"""Sanitising: `POST /sanitize`, the same as a stream, and the operator's policies for it."""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from core.errors import InvalidInput
from core.master_key import MasterKey
from core.state.keystore import KeyRole
from core.state.masking_counts import MaskingCounts
from core.text.mask_words import AllowLists
from gpu_workers.engine.task_queue import Engine
from service.capability import Capability, Estimated, View
from service.config.settings import Settings
from service.files.stored import OwnDirectory, StoredFiles
from service.http.answers import IDEMPOTENT, RELEASE_WORDS_HEADERS
from service.http.auth import ReadCallerDep, ReleaseCallerDep
from service.http.body import BodyMemory, JsonRoute, json_limits
from service.http.exchange import EndlessStreamDep
from service.http.middleware import STREAM_PATH, is_json_lines
from service.http.ndjson import MEDIA_TYPE, LineReader, LinesAnswer, LineStream
from service.http.strict import invalid_request
from service.isolation import Isolation
from service.jobs.storage import Storage
from service.parts import Part, Parts
from service.preparation import Preparation
from service.releases.pipeline import ReleasePipeline
from service.restore.tokens import RestoreTokens
from service.sanitize import counts
from service.sanitize.answers import PolicyList, RefusedLine, SanitizedDocuments, SanitizedRow, SummaryLine
from service.sanitize.fills import TunedModels
from service.sanitize.policies import Policies, load_policies
from service.sanitize.recognisers.endpoints import router as recognisers_router
from service.sanitize.recognisers.store import RecogniserStore, RecogniserTrials
from service.sanitize.schemas import SanitizeRequest, Terms, typical
from service.sanitize.service import SanitizeService
from service.sanitize.stream import DocumentStream, StreamParts, parse_line
from service.workers import Workers

router = APIRouter(route_class=JsonRoute, tags=["text"])

LINES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "string",
                    "description": 'A line of terms {"policy", "mask", "fill", "return_spans", "dry_run"}, which may '
                    'be left out, then a document {"id", "text", "subject"} a line.',
                }
            }
        },
    },
    "parameters": RELEASE_WORDS_HEADERS,
}


@router.post(
    "/sanitize",
    summary="Mask and fill text (a formal guarantee by metric_dp and dp alone)",
    response_model=SanitizedDocuments,
    openapi_extra=IDEMPOTENT,
)
async def sanitize(
    body: SanitizeRequest,
    request: Request,
    caller: ReleaseCallerDep,
    sanitizing: Part[SanitizeService],
    releases: Part[ReleasePipeline],
) -> Response:
    return await releases.release(request, caller, await sanitizing.release_request(caller.tenant, body))


@router.post(
    STREAM_PATH,
    summary="Mask and fill a stream of documents, JSON lines in and out",
    response_class=LinesAnswer,
    response_model=SanitizedRow | RefusedLine | SummaryLine,
    response_description="A row or a problem for each document, in order, and a summary: one of these a line.",
    openapi_extra=LINES,
)
async def sanitize_batch(
    request: Request, caller: ReleaseCallerDep, parts: Part[StreamParts], open_: EndlessStreamDep
) -> Response:
    """The first line may hold the terms; any other holds a document. An error in the first line is a status code; an
    error in a later one is a problem of that line."""
    if not is_json_lines(request.headers.get("content-type", "")):
        raise HTTPException(415)
    if "idempotency-key" in request.headers:
        raise InvalidInput("A stream is not kept, so it takes no Idempotency-Key.", field="Idempotency-Key")
    lines = LineReader(request, parts.settings, parts.body_memory.opened(caller.tenant))
    try:
        first = await lines.take(1, stream=open_)
        if not first:
            raise InvalidInput("The body holds no line.", field="body")
        size, limits = len(first[0].content or b""), json_limits(parts.settings)
        value = await parts.preparation.run(caller.tenant, size, parse_line, first[0], limits)
        if isinstance(value, dict) and "text" in value:
            terms = Terms()
        else:
            terms, first = _terms(value), []
        applied = parts.sanitize.applied(terms, caller.tenant)
        await parts.sanitize.model_of(caller.tenant, applied)  # an unknown one is the answer's status
        stream = DocumentStream(parts, caller, applied, lines, open_)
    except BaseException:
        lines.close()
        raise
    return LineStream(stream.rows(first), idle_s=parts.settings.stream_idle_s)


def _terms(value: Any) -> Terms:
    try:
        return Terms.model_validate(value)
    except ValidationError as error:
        raise invalid_request(error, "body") from None


@router.get("/policies", summary="The operator's policies that the tenant may name, or must")
async def list_policies(caller: ReadCallerDep, policies: Part[Policies]) -> PolicyList:
    return {"policies": policies.visible(caller.tenant)}


def _policies(parts: Parts) -> Policies:
    settings = parts[Settings]
    return load_policies(settings, lists=AllowLists(settings.allow_lists_dir).names)


def _recognisers(parts: Parts) -> RecogniserStore:
    settings = parts[Settings]
    return RecogniserStore(
        settings.data_dir,
        parts[MasterKey],
        parts[Storage],
        per_tenant_max=settings.recognisers_per_tenant_max,
        per_request_max=settings.recognisers_per_request_max,
        policies=parts[Policies].recognisers,
        own_dir=parts[OwnDirectory].path,
    )


def _service(parts: Parts) -> SanitizeService:
    return SanitizeService(
        parts[Settings],
        policies=parts[Policies],
        models=parts[TunedModels],
        recognisers=parts[RecogniserStore],
        workers=parts[Workers],
        preparation=parts[Preparation],
        isolation=parts[Isolation],
        surrogate_key=parts[MasterKey].surrogate_key,
        tokens=parts[RestoreTokens],
    )


def _of_streams(parts: Parts) -> StreamParts:
    return StreamParts(
        parts[Settings],
        parts[SanitizeService],
        parts[ReleasePipeline],
        parts[Engine],
        parts[Preparation],
        parts[BodyMemory],
        parts[MaskingCounts],
    )


def _price(parts: Parts) -> Estimated:
    marks = frozenset({"policy", "mask", "fill"})
    return Estimated("sanitize", SanitizeRequest, marks, parts[SanitizeService], typical, "sanitize")


CAPABILITY = Capability(
    name="sanitize",
    routers=[router, counts.router, recognisers_router],
    services={
        Policies: _policies,
        TunedModels: lambda parts: TunedModels(parts[StoredFiles]),
        RecogniserStore: _recognisers,
        RecogniserTrials: lambda parts: RecogniserTrials(parts[Isolation]),
        SanitizeService: _service,
        StreamParts: _of_streams,
    },
    prices=lambda parts: [_price(parts)],
    views=[
        View(75, "masking", "Masking", "What did masking find, for whom, and what was refused?", KeyRole.READ),
        View(135, "playground", "Playground", "What would a language model see of a text?", KeyRole.RELEASE),
        View(140, "try", "Try it", "What does the gateway make of a document?", KeyRole.RELEASE),
    ],
    begin=lambda parts: parts[RecogniserStore].open(),
    background=lambda parts: [parts[MaskingCounts].write_regularly()],
    end=lambda parts: parts[MaskingCounts].write(),
)
