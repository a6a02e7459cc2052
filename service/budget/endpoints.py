"""Budget queries: what is left, where it went, what a request would cost. None of them charges."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from core.accounting.events import Unit
from core.amounts import delta_of, epsilon_of
from core.errors import InvalidInput
from core.ledger.records import Charge
from core.ledger.series import SeriesQuery, SubjectClass
from service.budget.blocks import block_with_history, page_block, series_block
from service.finetune.job_kind import FinetuneEstimate, settled_fields, training_cost
from service.house import House, house
from service.http.auth import Caller, require_tenant
from service.http.body import JsonRoute
from service.http.paging import Paging, paging
from service.http.problems import amount
from service.sanitize.schemas import SanitizeRequest
from service.sanitize.service import cost_of
from service.sentdp import endpoints
from service.synthesis.job_kind import SynthesisEstimate, checked_price
from service.vectors import endpoints

router = APIRouter(route_class=JsonRoute, tags=["budget"])

Who = Annotated[Caller, Depends(require_tenant)]
Here = Annotated[House, Depends(house)]


def _digits(value: str) -> str:
    if not (value.isascii() and value.isdigit()):
        raise ValueError("digits alone")
    return value


Digits = Annotated[int, BeforeValidator(_digits), Field(lt=2**53)]


class SeriesParameters(BaseModel):
    """Query of `GET /budget/series`. Times are milliseconds since the epoch."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    from_ms: Digits | None = Field(None, alias="from", description="Default: a day before `to`.")
    to_ms: Digits | None = Field(None, alias="to", description="Exclusive. Default, and at most: now.")
    step: Digits | None = Field(
        None, description="60, 600, 3600, 21600 or 86400 seconds. Default: the finest that is kept and fits."
    )
    unit: Unit | None = None
    mechanism: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9_.+-]{0,127}$", description="A `+` is sent as %2B.")
    subject_class: SubjectClass | None = Field(None, alias="class")


@router.get("/budget", summary="The accounts of the tenant, page by page: its own, then its subjects'")
async def budget(caller: Who, here: Here, page: Annotated[Paging, Depends(paging)]) -> dict[str, Any]:
    found = await here.ledger.accounts_page(caller.tenant, cursor=page.cursor, limit=page.limit)
    return await page_block(found, here.settings.display_delta)


@router.get("/budget/series", summary="Committed and reserved over time, by unit, mechanism and subject class")
async def series(caller: Who, here: Here, query: Annotated[SeriesParameters, Query()]) -> Response:
    page = await here.series.read(
        caller.tenant,
        SeriesQuery(
            from_ms=query.from_ms,
            to_ms=query.to_ms,
            step_s=query.step,
            unit=query.unit,
            mechanism=query.mechanism,
            subject_class=query.subject_class,
        ),
    )
    # up to 48,000 points: in a thread, and not through the framework's models, so that nobody waits for them
    content = await asyncio.to_thread(lambda: orjson.dumps(series_block(page)))
    return Response(content, media_type="application/json")


def _form(body: Any) -> str:
    """Which endpoint's body it is: a schema, labels, documents with what `/sanitize` knows of, documents, vectors."""
    if isinstance(body, dict) and "schema" in body:
        return "synthesis"
    if isinstance(body, dict) and "labels" in body:
        return "finetune"
    if not (isinstance(body, dict) and "documents" in body):
        return "vector"
    return "sanitize" if body.keys() & {"policy", "mask", "fill"} else "sentdp"


Estimated = Annotated[
    Annotated[endpoints.SentDPRequest, Tag("sentdp")]
    | Annotated[SanitizeRequest, Tag("sanitize")]
    | Annotated[SynthesisEstimate, Tag("synthesis")]
    | Annotated[FinetuneEstimate, Tag("finetune")]
    | Annotated[endpoints.VectorRequest, Tag("vector")],
    Discriminator(_form),
]


@router.post("/budget/estimate", summary="What a charging request would cost; never charges")
async def estimate(body: Estimated, caller: Who, here: Here) -> dict[str, Any]:
    """Takes the body of a charging endpoint. Documents, texts and vectors are counted, not read."""
    if isinstance(body, endpoints.SentDPRequest):
        charges, facts = await _document_charges(body, caller, here)
    elif isinstance(body, SanitizeRequest):
        charges, facts = _word_charges(body, caller, here)
    elif isinstance(body, SynthesisEstimate):
        charges, facts = await _record_charges(body, here)
    elif isinstance(body, FinetuneEstimate):
        charges, facts = await _training_charges(body, here)
    else:
        charges, facts = await _vector_charges(body, caller, here)
    event = charges[0].event
    found = await here.ledger.estimate(caller.tenant, charges)
    return {
        "privacy": {
            "guarantee": event.guarantee.value,
            "unit": event.unit.value,
            "adjacency": event.adjacency.value,
            "epsilon": epsilon_of(event.epsilon_nano),
            "mechanism": event.mechanism,
            **facts,
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


Priced = tuple[Sequence[Charge], dict[str, Any]]  # the charges, and what the privacy block says beside the event


async def _document_charges(body: endpoints.SentDPRequest, caller: Caller, here: House) -> Priced:
    domain = await here.domains.find(caller.tenant, body.domain)
    event = endpoints.price(body, here.settings, domain.info)
    return endpoints.charges_of(body, event), endpoints.facts_of(body)


def _word_charges(body: SanitizeRequest, caller: Caller, here: House) -> Priced:
    cost = cost_of(here, here.policies.applied(body, caller.tenant))
    if not cost.charges:
        raise InvalidInput("This fill costs nothing.", field="fill.mode")
    return cost.charges, cost.facts


async def _record_charges(body: SynthesisEstimate, here: House) -> Priced:
    _, budget = await asyncio.to_thread(checked_price, here, body)
    facts = {"delta": delta_of(budget.delta_femto), "noise_multiplier": budget.noise_multiplier}
    return [Charge(budget.event(body.method), body.subject)], facts


async def _training_charges(body: FinetuneEstimate, here: House) -> Priced:
    settled = await asyncio.to_thread(settled_fields, here, body)
    budget = await training_cost(here, settled.model_dump())
    plan = budget.plan
    facts = {
        "delta": delta_of(budget.delta_femto),
        "noise_multiplier": plan.noise_multiplier,
        "steps": plan.steps,
        "certificate": {"adjacency": "add-remove", "epsilon": plan.certificate.epsilon, "delta": plan.delta},
    }
    return [Charge(budget.event, settled.subject)], facts


async def _vector_charges(body: endpoints.VectorRequest, caller: Caller, here: House) -> Priced:
    price = await endpoints.price(body, here, caller.tenant)
    return price.charges(rows=body.rows, subject=body.subject), price.facts


@router.get("/budget/{account:path}/journal", summary="The journal of an account, oldest first")
async def journal(
    account: str,
    caller: Who,
    here: Here,
    cursor: Annotated[int, Query(ge=0, lt=2**53, description="`next_cursor` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1)] = 100,
) -> dict[str, Any]:
    page = await here.ledger.journal(
        caller.tenant, account, cursor=cursor, limit=min(limit, here.settings.journal_page_max)
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
async def one_account(account: str, caller: Who, here: Here) -> dict[str, Any]:
    state = await here.ledger.account(caller.tenant, account)
    return await asyncio.to_thread(block_with_history, state, here.settings.display_delta)
