"""`GET /budget/{account}/forecast`: when the account runs out, from what was spent in days or hours."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from service.budget.forecasting import forecast_of
from service.deps import LedgerDep, SeriesDep
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute

router = APIRouter(route_class=JsonRoute, tags=["budget"])


@router.get("/budget/{account:path}/forecast", summary="When the account runs out: an estimate, with a band")
async def account_forecast(account: str, caller: ReadCallerDep, ledger: LedgerDep, series: SeriesDep) -> dict[str, Any]:
    """Exhausted means that the sum of epsilon reaches the value at which the account admits nothing more, if future
    releases are of the same kinds as the past ones."""
    state = await ledger.account(caller.tenant, account)
    return await forecast_of(state, caller.tenant, ledger, series, now_ms=await ledger.now_ms())
