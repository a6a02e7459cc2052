"""Ends sessions of the dashboard before their time, by the operator: those of a tenant, or the operator's own."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.deps import AdminLogDep, LedgerDep, SessionsDep
from service.http.auth import OPERATOR
from service.http.body import JsonRoute
from service.http.operator_log import BY_OPERATOR

router = APIRouter(prefix="/admin", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])


@router.post(
    "/tenants/{tenant}/sessions/end", status_code=204, summary="End every session of the dashboard for a tenant"
)
async def end_of_tenant(tenant: str, ledger: LedgerDep, sessions: SessionsDep, log: AdminLogDep) -> Response:
    await ledger.own_accounts(tenant)  # raises UnknownTenant
    await log.append(by=BY_OPERATOR, action="sessions.end", target=tenant)
    await sessions.end_all(tenant)
    return Response(status_code=204)


@router.post("/sessions/end", status_code=204, summary="End every session of the dashboard for the operator")
async def end_of_operator(sessions: SessionsDep, log: AdminLogDep) -> Response:
    await log.append(by=BY_OPERATOR, action="operator.sessions.end", target="operator")
    await sessions.end_all(None)
    return Response(status_code=204)
