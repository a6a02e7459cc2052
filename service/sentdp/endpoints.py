"""`POST /embed/sentdp`: sentence-private document embeddings. The guarantee: `service/sentdp/service.py`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.deps import ReleasesDep, SentDPDep
from service.http.auth import ReleaseCallerDep
from service.http.body import JsonRoute
from service.sentdp.schemas import SentDPRequest

router = APIRouter(route_class=JsonRoute, tags=["embeddings"])


@router.post("/embed/sentdp", summary="Sentence-private document embeddings")
async def embed_sentdp(
    body: SentDPRequest, request: Request, caller: ReleaseCallerDep, sentdp: SentDPDep, releases: ReleasesDep
) -> Response:
    return await releases.release(request, caller, await sentdp.release_request(caller.tenant, body))
