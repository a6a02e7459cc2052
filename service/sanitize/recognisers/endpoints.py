"""A tenant's recognisers: store, list, read and delete them, and try a draft.

A key with the role `jobs` changes and reads them, because a deny list may be sensitive. The list shows counts only.
"""

from fastapi import APIRouter, Request, Response

from service.http.answers import IDEMPOTENT
from service.http.auth import JobsCallerDep, ReadCallerDep, ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.problems import documented
from service.http.strict import PagingDep
from service.parts import Part
from service.releases.pipeline import ReleasePipeline
from service.sanitize.answers import DraftResult, RecogniserFacts, RecognisersPage, StoredRecogniser
from service.sanitize.recognisers.store import DraftBody, RecogniserBody, RecogniserStore, RecogniserTrials

router = APIRouter(prefix="/sanitize/recognisers", route_class=JsonRoute, tags=["text"])


@router.post(
    "/test",
    summary="What a draft of a recogniser finds in a text; costs and stores nothing",
    response_model=DraftResult,
    openapi_extra=IDEMPOTENT,
)
async def try_recogniser(
    body: DraftBody,
    request: Request,
    caller: ReleaseCallerDep,
    trials: Part[RecogniserTrials],
    releases: Part[ReleasePipeline],
) -> Response:
    return await releases.release(request, caller, await trials.release_request(caller.tenant, body))


@router.get("", summary="The tenant's recognisers without their patterns and terms, page by page")
async def list_recognisers(caller: ReadCallerDep, stored: Part[RecogniserStore], page: PagingDep) -> RecognisersPage:
    rows, next_cursor = await stored.page(caller.tenant, cursor=page.cursor, limit=page.limit)
    return {"recognisers": rows, "next_cursor": next_cursor}


@router.put(
    "/{name}",
    summary="Store a recogniser; replaces one of the same name",
    responses={
        201: {"description": "The name is new.", "model": RecogniserFacts},
        **documented(s507="There is too little disk space."),
    },
)
async def put_recogniser(
    name: str,
    body: RecogniserBody,
    response: Response,
    caller: JobsCallerDep,
    stored: Part[RecogniserStore],
    trials: Part[RecogniserTrials],
) -> RecogniserFacts:
    facts, is_new = await stored.put(caller.tenant, name, await trials.checked(caller.tenant, body))
    response.status_code = 201 if is_new else 200
    return facts


@router.get("/{name}", summary="One recogniser with its patterns and terms")
async def get_recogniser(name: str, caller: JobsCallerDep, stored: Part[RecogniserStore]) -> StoredRecogniser:
    return await stored.get(caller.tenant, name)


@router.delete("/{name}", status_code=204, summary="Delete a recogniser")
async def delete_recogniser(name: str, caller: JobsCallerDep, stored: Part[RecogniserStore]) -> Response:
    await stored.remove(caller.tenant, name)
    return Response(status_code=204)
