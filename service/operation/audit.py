"""The log of administrative actions, for the operator."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from core.ledger.hash_chain.admin_log import AdminLog
from service.http.auth import OPERATOR
from service.parts import Part

_PAGE_MAX = 1000  # entries, as of the journals of accounts

router = APIRouter(prefix="/admin", tags=["admin"], dependencies=[OPERATOR])


@router.get("/audit", summary="The log of administrative actions, oldest first, page by page")
async def audit(
    log: Part[AdminLog],
    cursor: Annotated[int, Query(ge=0, lt=2**53, description="`next_cursor` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1)] = 100,
) -> dict[str, Any]:
    """`genuine` is false for an entry that the gateway did not write. `ledger export --actions` checks the chain."""
    page = await log.page(after=cursor, limit=min(limit, _PAGE_MAX))
    return {"entries": [asdict(entry) for entry in page.entries], "next_cursor": page.next_cursor}
