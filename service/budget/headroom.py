"""`GET /budget/{account}/headroom`: how many more requests of each preset and mechanism the account admits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query

from core.amounts import epsilon_of
from core.errors import GatewayError
from core.ledger.headroom import AccountHeadroom, Fit, Headroom
from core.ledger.transitions import Ledger
from service.budget.pricing import Prices
from service.capability import Estimated, PresetPricing
from service.config.settings import Settings
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.parts import Part, Parts
from service.releases.request import Price, check_epsilon


@dataclass(frozen=True)
class _Offer:
    """A request with one document and no subject: the names of its row, and its price or why it has none."""

    names: dict[str, Any]
    price: Price | GatewayError


def headroom_router(parts: Parts) -> APIRouter:
    """The route for the charging endpoints and presets of a gateway."""
    endpoints, presets = parts[Prices].rows, parts[PresetPricing]

    async def headroom(
        account: str,
        caller: ReadCallerDep,
        ledger: Part[Ledger],
        settings: Part[Settings],
        epsilon: Annotated[
            float | None,
            Query(
                description="Of one document by each mechanism. Default: that of the account's plan; else presets alone"
            ),
        ] = None,
    ) -> dict[str, Any]:
        """One row for each kind of request with one document that debits the account.

        `fits` is exact if nothing else is reserved: that many equal requests are admitted one after the other, and the
        next is refused. `binding` is the account that refuses first, with the arm that admits its last request.
        """
        if epsilon is None:
            plan = (await ledger.account(caller.tenant, account)).plan
            epsilon = None if plan is None else epsilon_of(plan.epsilon_nano)
        else:
            check_epsilon(epsilon, settings)
        offers = await _offers(caller.tenant, endpoints, presets, epsilon)
        priced = [offer.price for offer in offers if isinstance(offer.price, Price)]
        state, found = await ledger.headroom(caller.tenant, account, [price.charges for price in priced])
        answers = iter(found)
        rows, unpriced = [], []
        for offer in offers:
            if isinstance(offer.price, GatewayError):
                unpriced.append({**offer.names, "code": offer.price.code, "detail": offer.price.detail})
                continue
            answer = next(answers)
            if state.unit in answer.units:
                rows.append({**offer.names, **_charged(offer.price), **_row(answer)})
        return {"account": account, "epsilon": epsilon, "requests": rows, "unpriced": unpriced}

    router = APIRouter(route_class=JsonRoute, tags=["budget"])
    router.add_api_route(
        "/budget/{account:path}/headroom",
        headroom,
        methods=["GET"],
        summary="How many more requests of each preset and mechanism fit",
    )
    return router


async def _offers(
    tenant: str, endpoints: Sequence[Estimated], presets: PresetPricing, epsilon: float | None
) -> list[_Offer]:
    offers = []
    for name in presets.names:
        offers.append(await _offer({"preset": name, "endpoint": "v1/embeddings"}, presets, tenant, name))
    for endpoint in endpoints if epsilon is not None else ():
        for body in endpoint.typical(epsilon or 0.0):
            offers.append(await _offer({"preset": None, "endpoint": endpoint.route}, endpoint.pricing, tenant, body))
    return offers


async def _offer(names: dict[str, Any], pricing: Any, tenant: str, what: Any) -> _Offer:
    """A request that cannot be priced now has an error for a price, for example while a worker loads its model."""
    try:
        return _Offer(names, await pricing.price(tenant, what))
    except GatewayError as error:
        return _Offer(names, error)


def _charged(price: Price) -> dict[str, Any]:
    event = price.charges[0].event
    return {"mechanism": event.mechanism, "epsilon": epsilon_of(event.epsilon_nano), "unit": event.unit.value}


def _row(answer: AccountHeadroom) -> dict[str, Any]:
    found: Headroom = answer.headroom
    row = {
        "fits": found.binding.releases,
        "binding": _fit(found.binding),
        "accounts": [{**_fit(fit), "fits": fit.releases} for fit in found.fits],
    }
    if answer.new_subject is not None:
        row["new_subject"] = {"fits": answer.new_subject.binding.releases}
    return row


def _fit(fit: Fit) -> dict[str, Any]:
    return {"account": fit.account, "arm": fit.arm, "order": fit.order}
