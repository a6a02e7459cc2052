"""Sanitising: `POST /sanitize`, the same as a stream, and the operator's policies for it. See
`service/sanitize/service.py`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from core.errors import InvalidInput
from core.text.policy import Sanitised
from service.house import House, house
from service.http.auth import Caller, require_tenant
from service.http.body import JsonRoute
from service.http.middleware import STREAM_PATH, is_json_lines
from service.http.ndjson import MEDIA_TYPE, LineReader, LineStream
from service.releases.pipeline import ReleaseRequest, release
from service.sanitize.model_fills import role_of
from service.sanitize.schemas import SanitizeRequest, Terms
from service.sanitize.service import counts, engine_task, prepare, row
from service.sanitize.stream import Stream, parse

router = APIRouter(route_class=JsonRoute, tags=["text"])

Who = Annotated[Caller, Depends(require_tenant)]
Here = Annotated[House, Depends(house)]

LINES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "string",
                    "description": 'A line of terms {"policy", "mask", "fill", "return_spans"}, which may be left out, '
                    'then a document {"id", "text", "subject"} a line.',
                }
            }
        },
    },
    "responses": {
        "200": {
            "description": "A row or a problem a document, in order, and a summary.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        }
    },
}


@router.post("/sanitize", summary="Mask and fill text (a formal guarantee by metric_dp and dp alone)")
async def sanitize(params: SanitizeRequest, request: Request, caller: Who, here: Here) -> Response:
    body = here.policies.applied(params, caller.tenant)
    cost, tasks = prepare(here, caller.tenant, body)

    def render(results: list[Sanitised], common: dict[str, Any]) -> dict[str, Any]:
        rows = enumerate(zip(body.documents, results, strict=True))
        return {
            "data": [row(index, document, result, body) for index, (document, result) in rows],
            **({} if body.policy is None else {"policy": body.policy}),
            **common,
            "usage": {"documents": len(results), **counts(results, body)},
        }

    return await release(
        here,
        request,
        caller,
        ReleaseRequest(
            charges=cost.charges,
            role=role_of(body.fill.mode),
            tasks=[engine_task(task) for task in tasks],
            render=render,
            privacy=cost.facts,
        ),
    )


@router.post(
    STREAM_PATH,
    summary="Mask and fill a stream of documents, JSON lines in and out",
    response_class=Response,
    openapi_extra=LINES,
)
async def sanitize_batch(request: Request, caller: Who, here: Here) -> Response:
    """The first line may hold the terms; any other holds a document. What is wrong with the first line is a status
    code; what is wrong with a later one is that line's own problem."""
    if not is_json_lines(request.headers.get("content-type", "")):
        raise HTTPException(415)
    if "idempotency-key" in request.headers:
        raise InvalidInput("A stream is not kept, so it takes no Idempotency-Key.", field="Idempotency-Key")
    lines = LineReader(request, here.settings)
    try:
        first = await lines.take(1, ending=here.ending)
        if not first:
            raise InvalidInput("The body holds no line.", field="body")
        value = parse(first[0], here)
        if isinstance(value, dict) and "text" in value:
            terms = Terms()
        else:
            terms, first = _terms(value), []
        stream = Stream(here, caller, here.policies.applied(terms, caller.tenant), lines)
    except BaseException:
        lines.close()
        raise
    return LineStream(stream.rows(first), idle_s=here.settings.stream_idle_s)


def _terms(value: Any) -> Terms:
    try:
        return Terms.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([entry | {"loc": ("body", *entry["loc"])} for entry in found]) from None


@router.get("/policies", summary="The operator's policies that the tenant may name, or must")
async def policies(caller: Who, here: Here) -> dict[str, Any]:
    return {"policies": here.policies.visible(caller.tenant)}
