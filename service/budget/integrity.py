"""`GET /budget/integrity` and `GET /admin/integrity`: how far the ledger is sealed and audited, and what is open."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter
from typing_extensions import TypedDict

from core.accounting.events import Unit
from core.amounts import Amount
from core.errors import BlobError, LedgerError, LedgerNotTrusted, LedgerUnavailable
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.transitions import Ledger
from core.reports.integrity import IntegrityReads, LedgerIntegrity, TenantIntegrity
from core.reports.series import SpendingTotals, Totals
from service.http.answers import BudgetAmount, doc
from service.http.auth import BY_OPERATOR, OPERATOR, ReadCallerDep
from service.http.body import JsonRoute
from service.http.problems import amount
from service.http.strict import PagingDep
from service.ledger_connection import LedgerParts, audit_and_store
from service.parts import Part

router = APIRouter(route_class=JsonRoute, tags=["budget"])
admin_router = APIRouter(prefix="/admin", route_class=JsonRoute, tags=["admin"], dependencies=[OPERATOR])

log = logging.getLogger("privacy_gateway.integrity")

NOT_TRUSTED = "The ledger does not match its seals. The gateway's log has the details."


class JournalSeals(TypedDict):
    """How far a tenant's journal is sealed."""

    entries: Annotated[int, doc("How many entries it has.")]
    sealed: Annotated[int, doc("How many of them the last seal contains.")]
    unsealed: Annotated[int, doc("How many it does not contain.")]
    seal: Annotated[int | None, doc("The number of the last seal with entries of this tenant; null for none.")]


class HoldsInWork(TypedDict):
    """Reservations of releases in work."""

    number: Annotated[int, doc("How many.")]
    earliest_deadline_ms: Annotated[int | None, doc("When the first one ends by itself; null for none.")]


class LostSpending(BudgetAmount):
    """What was spent without an output, in one unit."""

    unit: Annotated[str, doc("The unit.")]
    releases: Annotated[int, doc("How many releases.")]


class SealState(TypedDict):
    """The end of the chain of seals, which all tenants share."""

    at_ms: Annotated[int, doc("The time of the answer, in milliseconds since the epoch.")]
    epoch: Annotated[int, doc("The number of the last seal; 0 for none.")]
    sealed_at_ms: Annotated[int | None, doc("When it was written; null for none.")]
    seal_age_s: Annotated[float | None, doc("The seconds since; null for none.")]


class OfTenant(TypedDict):
    """What is sealed, held and lost of one tenant."""

    journal: Annotated[JournalSeals, doc("How far the journal is sealed.")]
    open_holds: Annotated[HoldsInWork, doc("What is held.")]
    spent_without_output: Annotated[list[LostSpending], doc("What was lost, by unit.")]


class AuditResult(TypedDict):
    """The last audit of the ledger."""

    at_ms: Annotated[int, doc("When it ended, in milliseconds since the epoch.")]
    ok: Annotated[bool, doc("Whether it found no fault.")]
    entries: Annotated[int, doc("How many of the entries it has read: of the tenant, or of all journals.")]


class BudgetIntegrity(SealState, OfTenant):
    """Seals, open holds and what was lost, of the calling tenant."""

    last_audit: Annotated[AuditResult | None, doc("The last audit, as far as it concerns the tenant; null for none.")]


class WholeAudit(AuditResult):
    """The last audit of the ledger, for the operator."""

    chain_ok: Annotated[bool, doc("Whether the chain of seals is whole.")]
    seals: Annotated[int, doc("How many seals were read.")]
    tenants: Annotated[int, doc("How many tenants were read.")]
    faulty: Annotated[list[str], doc("The tenants with a fault.")]


class TenantSeals(OfTenant):
    """The same for a named tenant."""

    tenant: Annotated[str, doc("The name of the tenant.")]


class LedgerIntegrityPage(SealState):
    """Seals, open holds and what was lost, of every tenant."""

    entries: Annotated[int, doc("How many entries all journals have now.")]
    auditing: Annotated[bool, doc("Whether this gateway audits the ledger now.")]
    last_audit: Annotated[WholeAudit | None, doc("The last audit; null for none.")]
    tenants: Annotated[list[TenantSeals], doc("A page of tenants, by name.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


class AuditNow:
    """Audits the whole ledger on request, once at a time, in batches between which requests are served."""

    def __init__(self, parts: LedgerParts) -> None:
        self._parts = parts
        self._wanted = asyncio.Event()

    @property
    def is_running(self) -> bool:
        return self._wanted.is_set()

    def start(self) -> None:
        """Begin an audit, unless one runs."""
        self._wanted.set()

    async def run(self) -> None:
        """Until it is cancelled: do the audits that are asked for."""
        while True:
            await self._wanted.wait()
            try:
                await audit_and_store(self._parts)
            except (LedgerError, BlobError) as error:
                log.warning("audit-failed", extra={"fields": {"kind": type(error).__name__}})
            finally:
                self._wanted.clear()


@router.get("/budget/integrity", summary="Seals, open holds, epsilon spent without output, and the last audit")
async def get_integrity(
    caller: ReadCallerDep, integrity: Part[IntegrityReads], spending: Part[SpendingTotals], reads: Part[Ledger]
) -> BudgetIntegrity:
    """Of the tenant, and the end of the chain of seals, which all tenants share. 503 for a seal that is not genuine."""
    try:
        ledger, found = await integrity.ledger(), await integrity.tenant(caller.tenant)
    except LedgerNotTrusted:
        raise LedgerUnavailable(NOT_TRUSTED) from None
    audit, last = ledger.audit, None
    if audit is not None:
        read = await reads.first_entry_at(caller.tenant, audit.began_ms) - 1
        last = AuditResult(at_ms=audit.at_ms, ok=audit.ok_for(caller.tenant), entries=read)
    return {
        **_seal_block(ledger),
        **_tenant_block(found, await spending.lost(caller.tenant)),
        "last_audit": last,
    }


@admin_router.get("/integrity", summary="The same for every tenant, page by page")
async def get_all_integrity(
    integrity: Part[IntegrityReads], spending: Part[SpendingTotals], audits: Part[AuditNow], page: PagingDep
) -> LedgerIntegrityPage:
    """`cursor` is the name of the last tenant of the page before."""
    try:
        ledger = await integrity.ledger()
    except LedgerNotTrusted:
        raise LedgerUnavailable(NOT_TRUSTED) from None
    found, next_cursor = await integrity.tenants(after=page.cursor or "", limit=page.limit)
    audit = ledger.audit
    return {
        **_seal_block(ledger),
        "entries": await integrity.entries(),
        "auditing": audits.is_running,
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


class AuditStarted(TypedDict):
    """An audit that runs."""

    auditing: Annotated[bool, doc("Always true. `GET /admin/integrity` shows the result as `last_audit`.")]


@admin_router.post("/integrity/audit", status_code=202, summary="Audit the whole ledger now")
async def audit_now(audits: Part[AuditNow], actions: Part[AdminLog]) -> AuditStarted:
    """Reads every seal and journal and compares every account. It takes about a second for 10,000 entries."""
    await actions.append(by=BY_OPERATOR, action="ledger.audit", target="ledger")
    audits.start()
    return {"auditing": True}


def _seal_block(ledger: LedgerIntegrity) -> SealState:
    seal = ledger.last_seal
    return {
        "at_ms": ledger.at_ms,
        "epoch": 0 if seal is None else seal.id.n,
        "sealed_at_ms": None if seal is None else seal.at_ms,
        "seal_age_s": None if seal is None else max(0, ledger.at_ms - seal.at_ms) / 1000,
    }


def _tenant_block(found: TenantIntegrity, lost: Mapping[Unit, Totals]) -> OfTenant:
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
