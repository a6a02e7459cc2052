"""Budget queries: what is left, where it went, what a request would cost. None of them charges."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from core.amounts import epsilon_of
from core.ledger.records import Charge
from service.auth import Caller, caller
from service.body import JsonRoute
from service.budget import account_block
from service.house import House, house
from service.problems import amount
from service.routes import sentdp

router = APIRouter(route_class=JsonRoute, tags=["budget"])

Who = Annotated[Caller, Depends(caller)]
Here = Annotated[House, Depends(house)]


@router.get("/budget", summary="Every account of the tenant")
async def budget(who: Who, here: Here) -> dict[str, Any]:
    return {"accounts": [account_block(state) for state in await here.ledger.accounts(who.tenant)]}


@router.post("/budget/estimate", summary="What a charging request would cost; never charges")
async def estimate(body: sentdp.SentDPRequest, who: Who, here: Here) -> dict[str, Any]:
    """Takes the body of a charging endpoint. The documents are counted, not read."""
    event = sentdp.price(body, here.settings)
    here.pack(body.domain)
    charges = [Charge(event=event, subject=subject) for subject in sentdp.subjects_of(body)]
    found = await here.ledger.estimate(who.tenant, charges)
    return {
        "privacy": {
            "guarantee": event.guarantee.value,
            "unit": event.unit.value,
            "adjacency": event.adjacency.value,
            "epsilon": epsilon_of(event.epsilon_nano),
            "mechanism": event.mechanism,
        },
        "allowed": found.allowed,
        "accounts": [
            {
                "account": line.account.account,
                "unit": line.account.unit.value,
                "cost": amount(line.cost),
                "remaining": amount(line.account.remaining),
                "remaining_after": None if line.remaining_after is None else amount(line.remaining_after),
                "allowed": line.allowed,
            }
            for line in found.lines
        ],
    }


@router.get("/budget/{account:path}/journal", summary="The journal of an account, oldest first")
async def journal(
    account: str,
    who: Who,
    here: Here,
    cursor: Annotated[int, Query(ge=0, lt=2**53, description="`next_cursor` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1)] = 100,
) -> dict[str, Any]:
    page = await here.ledger.journal(
        who.tenant, account, cursor=cursor, limit=min(limit, here.settings.journal_page_max)
    )
    return {
        "account": account,
        "entries": [
            {
                "seq": entry.seq,
                "at_ms": entry.at_ms,
                "transition": entry.transition,
                "release_id": entry.release_id,
                "mechanism": entry.mechanism,
                "reason": entry.reason,
                "amount": amount(line.amount),
            }
            for entry in page.entries
            for line in entry.amounts
            if line.account == account
        ],
        "next_cursor": page.next_cursor,
    }


# last: `account` holds slashes, so this path would take the ones above
@router.get("/budget/{account:path}", summary="One account, by its id")
async def one_account(account: str, who: Who, here: Here) -> dict[str, Any]:
    return account_block(await here.ledger.account(who.tenant, account))
