"""`GET /budget/integrity` and `GET /admin/integrity`: how far the ledger is sealed and audited, and what is open."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter

from core.accounting.events import Unit
from core.amounts import Amount
from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.reports.integrity import IntegrityReads, LedgerIntegrity, TenantIntegrity
from core.reports.series import SpendingTotals, Totals
from service.http.auth import OPERATOR, ReadCallerDep
from service.http.body import JsonRoute
from service.http.problems import amount
from service.http.strict import PagingDep
from service.parts import Part

router = APIRouter(route_class=JsonRoute, tags=["budget"])
admin_router = APIRouter(prefix="/admin", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])

_NOT_TRUSTED = "The ledger does not match its seals. The gateway's log has the details."


@router.get("/budget/integrity", summary="Seals, open holds, epsilon spent without output, and the last audit")
async def integrity(
    caller: ReadCallerDep, integrity: Part[IntegrityReads], spending: Part[SpendingTotals]
) -> dict[str, Any]:
    """Of the tenant, and the end of the chain of seals, which all tenants share. 503 for a seal that is not genuine."""
    try:
        ledger, found = await integrity.ledger(), await integrity.tenant(caller.tenant)
    except LedgerNotTrusted:
        raise LedgerUnavailable(_NOT_TRUSTED) from None
    audit = ledger.audit
    return {
        **_seal_block(ledger),
        **_tenant_block(found, await spending.lost(caller.tenant)),
        "last_audit": None if audit is None else {"at_ms": audit.at_ms, "ok": audit.ok_for(caller.tenant)},
    }


@admin_router.get("/integrity", summary="The same for every tenant, page by page")
async def all_integrity(
    integrity: Part[IntegrityReads], spending: Part[SpendingTotals], page: PagingDep
) -> dict[str, Any]:
    """`cursor` is the name of the last tenant of the page before."""
    try:
        ledger = await integrity.ledger()
    except LedgerNotTrusted:
        raise LedgerUnavailable(_NOT_TRUSTED) from None
    found, next_cursor = await integrity.tenants(after=page.cursor or "", limit=page.limit)
    audit = ledger.audit
    return {
        **_seal_block(ledger),
        "last_audit": None
        if audit is None
        else {
            "at_ms": audit.at_ms,
            "ok": audit.ok,
            "chain_ok": audit.chain_ok,
            "seals": audit.seals,
            "entries": audit.entries,
            "tenants": audit.tenants,
            "faulty": list(audit.faulty),
        },
        "tenants": [{"tenant": one.tenant, **_tenant_block(one, await spending.lost(one.tenant))} for one in found],
        "next_cursor": next_cursor,
    }


def _seal_block(ledger: LedgerIntegrity) -> dict[str, Any]:
    seal = ledger.last_seal
    return {
        "at_ms": ledger.at_ms,
        "epoch": 0 if seal is None else seal.id.n,
        "sealed_at_ms": None if seal is None else seal.at_ms,
        "seal_age_s": None if seal is None else max(0, ledger.at_ms - seal.at_ms) / 1000,
    }


def _tenant_block(found: TenantIntegrity, lost: Mapping[Unit, Totals]) -> dict[str, Any]:
    return {
        "journal": {
            "entries": found.entries,
            "sealed": found.sealed,
            "unsealed": max(0, found.entries - found.sealed),
            "seal": found.seal or None,
        },
        "open_holds": {"number": found.open_holds, "earliest_deadline_ms": found.overdue_ms},
        "spent_without_output": [
            {
                "unit": unit.value,
                **amount(Amount(totals.committed_epsilon_nano, totals.committed_delta_femto)),
                "releases": totals.releases,
            }
            for unit, totals in lost.items()
        ],
    }
