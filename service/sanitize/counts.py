"""`GET /masking/counts`: what masking did for the calling tenant. No gateway shows it to anybody else."""

from typing import Annotated

from fastapi import APIRouter, Query
from typing_extensions import TypedDict

from core.state.keystore import KeyStore
from core.state.masking_counts import DAYS_MAX, MaskingCounts
from service.http.answers import KeyWords, doc, words_of
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.parts import Part

router = APIRouter(route_class=JsonRoute, tags=["text"])


class MaskingCount(KeyWords):
    """The counts of one API key and model."""

    key_id: Annotated[str | None, doc("The API key; null for all others of a day with very many.")]
    model: Annotated[str | None, doc("The model that the texts were for; null for texts without one.")]
    requests: Annotated[int, doc("How many requests were masked.")]
    refused: Annotated[int, doc("How many requests the policy refused.")]
    finds: Annotated[dict[str, int], doc("How many finds of each type; own types are `OTHER` on a day with very many.")]


class MaskingCountList(TypedDict):
    """What masking did in the last days."""

    from_ms: Annotated[int, doc("When the first day begins, in UTC, in milliseconds since the epoch.")]
    rows: Annotated[list[MaskingCount], doc("A row for each API key and model, those with most requests first.")]


@router.get("/masking/counts", summary="What masking did in the last days: requests, refusals, finds by type")
async def masking_counts(
    caller: ReadCallerDep,
    counts: Part[MaskingCounts],
    keys: Part[KeyStore],
    days: Annotated[int, Query(ge=1, le=DAYS_MAX, description="Days in UTC, with today.")] = 7,
) -> MaskingCountList:
    """Counts of work without a price; they are seconds late. They describe your texts and are not private: only your
    tenant reads them."""
    from_ms, rows = await counts.read(caller.tenant, days)
    named = await keys.named(caller.tenant, (row.key_id for row in rows if row.key_id))
    return {
        "from_ms": from_ms,
        "rows": [
            {
                "key_id": row.key_id,
                "model": row.model,
                "requests": row.requests,
                "refused": row.refused,
                "finds": dict(row.finds.most_common()),
                **words_of(named.get(row.key_id or "")),
            }
            for row in rows
        ],
    }
