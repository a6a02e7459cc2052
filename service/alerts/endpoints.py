"""Alerts of a tenant under `/alerts`, and of the operator under `/admin/alerts`. The same routes in both."""

from collections.abc import Coroutine
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient
from core.redis.names import SHARED_OWNER
from core.reports.series import LedgerSeries, SpendingTotals
from core.state.alerts import AlertStore
from core.state.jobs import JobStore
from core.state.keystore import KeyRole
from service.admission import LoadLimits
from service.alerts.delivery import AlertWatch, WebhookSender
from service.alerts.rules import Sources
from service.alerts.schemas import AlertRule, AlertRules, AlertsPage, OperatorRuleBody, RuleBody, SampleResults
from service.alerts.service import AlertService
from service.capability import Capability, View
from service.config.settings import Settings
from service.http.auth import BY_OPERATOR, OPERATOR, AdminCallerDep, Caller, ReadCallerDep
from service.http.body import JsonRoute
from service.http.strict import PagingDep
from service.operation.maintenance import Maintenance
from service.parts import Part, Parts

router = APIRouter(prefix="/alerts", route_class=JsonRoute, tags=["alerts"])
operator_router = APIRouter(prefix="/admin/alerts", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])

Status = Annotated[Literal["open", "over"] | None, Query(description="Default: both.")]
_NEW: dict[int | str, dict[str, Any]] = {201: {"description": "The name is new.", "model": AlertRule}}


def _by(caller: Caller) -> str:
    return f"key:{caller.key_id}"


@router.get("", summary="Alerts that fired, newest first, page by page")
async def list_alerts(
    caller: ReadCallerDep, alerts: Part[AlertService], page: PagingDep, status: Status = None
) -> AlertsPage:
    return await alerts.page(caller.tenant, status, cursor=page.cursor, limit=page.limit)


@router.get("/rules", summary="The rules of the tenant's alerts, without secrets")
async def list_rules(caller: AdminCallerDep, alerts: Part[AlertService]) -> AlertRules:
    return {"rules": await alerts.rules(caller.tenant)}


@router.get("/rules/{name}", summary="One rule, without its secret, and its last delivery")
async def get_rule(name: str, caller: AdminCallerDep, alerts: Part[AlertService]) -> AlertRule:
    return await alerts.rule(caller.tenant, name)


@router.put(
    "/rules/{name}", summary="Store a rule; shows the secret of its webhook once, when it is new", responses=_NEW
)
async def put_rule(
    name: str, body: RuleBody, response: Response, caller: AdminCallerDep, alerts: Part[AlertService]
) -> AlertRule:
    block, is_new = await alerts.put(caller.tenant, name, body, by=_by(caller))
    response.status_code = 201 if is_new else 200
    return block


@router.delete("/rules/{name}", status_code=204, summary="Delete a rule; its open alerts end without a delivery")
async def delete_rule(name: str, caller: AdminCallerDep, alerts: Part[AlertService]) -> Response:
    await alerts.delete(caller.tenant, name, by=_by(caller))
    return Response(status_code=204)


@router.post("/rules/{name}/test", summary="Send a sample to the receivers of a rule now")
async def send_sample(name: str, caller: AdminCallerDep, alerts: Part[AlertService]) -> SampleResults:
    return {"results": await alerts.send_sample(caller.tenant, name)}


@operator_router.get("", summary="Alerts of the operator's rules that fired, newest first, page by page")
async def list_operator_alerts(alerts: Part[AlertService], page: PagingDep, status: Status = None) -> AlertsPage:
    return await alerts.page(SHARED_OWNER, status, cursor=page.cursor, limit=page.limit)


@operator_router.get("/rules", summary="The rules of the operator's alerts, without secrets")
async def list_operator_rules(alerts: Part[AlertService]) -> AlertRules:
    return {"rules": await alerts.rules(SHARED_OWNER)}


@operator_router.get("/rules/{name}", summary="One rule of the operator, without its secret, and its last delivery")
async def get_operator_rule(name: str, alerts: Part[AlertService]) -> AlertRule:
    return await alerts.rule(SHARED_OWNER, name)


@operator_router.put(
    "/rules/{name}", summary="Store a rule of the operator; shows the secret of its webhook once", responses=_NEW
)
async def put_operator_rule(
    name: str, body: OperatorRuleBody, response: Response, alerts: Part[AlertService]
) -> AlertRule:
    block, is_new = await alerts.put(SHARED_OWNER, name, body, by=BY_OPERATOR)
    response.status_code = 201 if is_new else 200
    return block


@operator_router.delete("/rules/{name}", status_code=204, summary="Delete a rule of the operator")
async def delete_operator_rule(name: str, alerts: Part[AlertService]) -> Response:
    await alerts.delete(SHARED_OWNER, name, by=BY_OPERATOR)
    return Response(status_code=204)


@operator_router.post("/rules/{name}/test", summary="Send a sample to the receivers of a rule of the operator now")
async def send_operator_sample(name: str, alerts: Part[AlertService]) -> SampleResults:
    return {"results": await alerts.send_sample(SHARED_OWNER, name)}


def _store(parts: Parts) -> AlertStore:
    return AlertStore(parts[LedgerClient], parts[MasterKey])


def _webhooks(parts: Parts) -> WebhookSender:
    """Raises ValueError for a file of certificates that cannot be used."""
    settings = parts[Settings]
    return WebhookSender(
        private_addresses=settings.alert_webhook_private_addresses, ca_file=settings.alert_webhook_ca_file
    )


def _service(parts: Parts) -> AlertService:
    return AlertService(parts[AlertStore], parts[WebhookSender], parts[AdminLog], samples=parts[LoadLimits].samples)


def _watch(parts: Parts) -> AlertWatch:
    sources = Sources(
        parts[Ledger],
        parts[LedgerSeries],
        parts[SpendingTotals],
        parts[JobStore],
        seal_age_s=parts[Maintenance].seal_age_s,
    )
    return AlertWatch(parts[AlertStore], sources, parts[WebhookSender])


def _background(parts: Parts) -> list[Coroutine[Any, Any, None]]:
    watch = parts[AlertWatch]
    return [watch.evaluate_regularly(), watch.deliver_regularly()]


CAPABILITY = Capability(
    name="alerts",
    routers=[router],
    operator_routers=[operator_router],
    services={AlertStore: _store, WebhookSender: _webhooks, AlertService: _service, AlertWatch: _watch},
    views=[View(100, "alerts", "Alerts", "What fired, and is it over?", KeyRole.READ, operator=True)],
    background=_background,
    leave=lambda parts: parts[AlertWatch].stop(),
)
