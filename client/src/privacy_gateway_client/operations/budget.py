"""Budget queries; none of them charges. A report is the JSON object that the gateway's OpenAPI document describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy_gateway_client.answers import Account, Estimate
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op
from privacy_gateway_client.exchange import get, post
from privacy_gateway_client.operations.reading import fetched, fetched_json, pages


def accounts(core: Core, *, limit: int | None = None) -> Op[None]:
    """Every account of the tenant: its own, then its subjects'. `limit`: accounts of one page."""
    yield from pages(core, "/budget", "accounts", Account, limit=limit)


def account(core: Core, account: str) -> Op[Account]:
    """One account, such as `acme/sentence`."""
    return (yield from fetched(core, Account, get(f"/budget/{account}")))


def headroom(core: Core, account: str, *, epsilon: float | None = None) -> Op[dict[str, Any]]:
    """How many more requests of each preset and mechanism an account admits. `epsilon`: of one document."""
    return (yield from fetched_json(core, get(f"/budget/{account}/headroom", epsilon=epsilon)))


def remaining(core: Core, mechanism: str, *, epsilon: float, account: str | None = None) -> Op[int]:
    """How many more requests of one document by a mechanism at `epsilon` are admitted if nothing else is reserved.

    account: one of those that it debits; by default an own account of the tenant, whichever the mechanism debits.
    Raises LookupError if the gateway prices no such mechanism now.
    """
    if account is not None:
        found = yield from headroom(core, account, epsilon=epsilon)
        return _fits(found["requests"], mechanism)
    tenant = yield from core.tenant_name()
    for unit in ("sentence", "token", "vector", "record"):
        found = yield from headroom(core, f"{tenant}/{unit}", epsilon=epsilon)
        rows = [row for row in found["requests"] if row["preset"] is None and row["mechanism"] == mechanism]
        if rows:
            return _fits(rows, mechanism)
    raise LookupError(mechanism)


def _fits(rows: list[dict[str, Any]], mechanism: str) -> int:
    found: list[int] = [row["fits"] for row in rows if row["preset"] is None and row["mechanism"] == mechanism]
    if not found:
        raise LookupError(mechanism)
    return min(found)


def journal(
    core: Core,
    account: str,
    *,
    limit: int | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    transition: str | None = None,
    mechanism: str | None = None,
    route: str | None = None,
    key_id: str | None = None,
    subject: str | None = None,
    order: str | None = None,
) -> Op[None]:
    """The entries of an account's journal. `limit`: of one page; the others choose entries and their order."""
    filters: dict[str, Any] = {
        "from": from_ms,
        "to": to_ms,
        "transition": transition,
        "mechanism": mechanism,
        "route": route,
    }
    filters |= {"key_id": key_id, "subject": subject, "order": order}
    yield from pages(core, f"/budget/{account}/journal", "entries", None, limit=limit, **filters)


def subjects(core: Core, account: str, *, near: float | None = None, limit: int | None = None) -> Op[None]:
    """The subjects' accounts of the unit, the least remaining first. `near`: only those with less than this epsilon."""
    yield from pages(core, f"/budget/{account}/subjects", "subjects", Account, near=near, limit=limit)


def series(
    core: Core,
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    step: int | None = None,
    unit: str | None = None,
    mechanism: str | None = None,
    subject_class: str | None = None,
) -> Op[dict[str, Any]]:
    """What was committed and reserved over time. `step`: 60, 600, 3600, 21600 or 86400 seconds."""
    params = {"from": from_ms, "to": to_ms, "class": subject_class}
    return (yield from fetched_json(core, get("/budget/series", step=step, unit=unit, mechanism=mechanism, **params)))


def estimate(core: Core, request: Mapping[str, Any]) -> Op[Estimate]:
    """What a charging request would cost, by the members of any of them. Texts are counted, not read."""
    return (yield from fetched(core, Estimate, post("/budget/estimate", request)))
