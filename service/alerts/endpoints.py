"""Alerts of a tenant under `/alerts`, and of the operator under `/admin/alerts`. The same routes in both."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from core.ledger.names import SHARED_OWNER
from service.alerts.schemas import OperatorRuleBody, RuleBody
from service.deps import AlertsDep, PagingDep
from service.http.auth import OPERATOR, AdminCallerDep, Caller, ReadCallerDep
from service.http.body import JsonRoute
from service.http.operator_log import BY_OPERATOR

router = APIRouter(prefix="/alerts", route_class=JsonRoute, tags=["alerts"])
operator_router = APIRouter(prefix="/admin/alerts", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])

Status = Annotated[Literal["open", "over"] | None, Query(description="Default: both.")]
_NEW: dict[int | str, dict[str, Any]] = {201: {"description": "The name is new."}}


def _by(caller: Caller) -> str:
    return f"key:{caller.key_id}"


@router.get("", summary="Alerts that fired, newest first, page by page")
async def fired(caller: ReadCallerDep, alerts: AlertsDep, page: PagingDep, status: Status = None) -> dict[str, Any]:
    return await alerts.page(caller.tenant, status, cursor=page.cursor, limit=page.limit)


@router.get("/rules", summary="The rules of the tenant's alerts, without secrets")
async def rules(caller: AdminCallerDep, alerts: AlertsDep) -> dict[str, Any]:
    return {"rules": await alerts.rules(caller.tenant)}


@router.get("/rules/{name}", summary="One rule, without its secret, and its last delivery")
async def rule(name: str, caller: AdminCallerDep, alerts: AlertsDep) -> dict[str, Any]:
    return await alerts.rule(caller.tenant, name)


@router.put(
    "/rules/{name}", summary="Store a rule; shows the secret of its webhook once, when it is new", responses=_NEW
)
async def put_rule(
    name: str, body: RuleBody, response: Response, caller: AdminCallerDep, alerts: AlertsDep
) -> dict[str, Any]:
    block, is_new = await alerts.put(caller.tenant, name, body, by=_by(caller))
    response.status_code = 201 if is_new else 200
    return block


@router.delete("/rules/{name}", status_code=204, summary="Delete a rule; its open alerts end without a delivery")
async def delete_rule(name: str, caller: AdminCallerDep, alerts: AlertsDep) -> Response:
    await alerts.delete(caller.tenant, name, by=_by(caller))
    return Response(status_code=204)


@router.post("/rules/{name}/test", summary="Send a sample to the receivers of a rule now")
async def send_sample(name: str, caller: AdminCallerDep, alerts: AlertsDep) -> dict[str, Any]:
    return {"results": await alerts.send_sample(caller.tenant, name)}


@operator_router.get("", summary="Alerts of the operator's rules that fired, newest first, page by page")
async def fired_of_operator(alerts: AlertsDep, page: PagingDep, status: Status = None) -> dict[str, Any]:
    return await alerts.page(SHARED_OWNER, status, cursor=page.cursor, limit=page.limit)


@operator_router.get("/rules", summary="The rules of the operator's alerts, without secrets")
async def operator_rules(alerts: AlertsDep) -> dict[str, Any]:
    return {"rules": await alerts.rules(SHARED_OWNER)}


@operator_router.get("/rules/{name}", summary="One rule of the operator, without its secret, and its last delivery")
async def operator_rule(name: str, alerts: AlertsDep) -> dict[str, Any]:
    return await alerts.rule(SHARED_OWNER, name)


@operator_router.put(
    "/rules/{name}", summary="Store a rule of the operator; shows the secret of its webhook once", responses=_NEW
)
async def put_operator_rule(name: str, body: OperatorRuleBody, response: Response, alerts: AlertsDep) -> dict[str, Any]:
    block, is_new = await alerts.put(SHARED_OWNER, name, body, by=BY_OPERATOR)
    response.status_code = 201 if is_new else 200
    return block


@operator_router.delete("/rules/{name}", status_code=204, summary="Delete a rule of the operator")
async def delete_operator_rule(name: str, alerts: AlertsDep) -> Response:
    await alerts.delete(SHARED_OWNER, name, by=BY_OPERATOR)
    return Response(status_code=204)


@operator_router.post("/rules/{name}/test", summary="Send a sample to the receivers of a rule of the operator now")
async def send_operator_sample(name: str, alerts: AlertsDep) -> dict[str, Any]:
    return {"results": await alerts.send_sample(SHARED_OWNER, name)}
