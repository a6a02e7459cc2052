"""Audit a ledger's accounts in a test: recompute every account from its journal and compare."""

from dataclasses import dataclass

from core.ledger.hash_chain.audit import LedgerAudit, audit_tenant
from core.ledger.hash_chain.replay import TenantAudit
from core.ledger.transitions import Ledger


@dataclass(frozen=True)
class AuditReport:
    tenants: tuple[TenantAudit, ...]

    @property
    def ok(self) -> bool:
        return all(tenant.ok for tenant in self.tenants)


async def audit(ledger: Ledger) -> AuditReport:
    """The audit of every tenant's accounts. It is sound while the ledger is in use, and does not read the seals."""
    return AuditReport(tuple([await audit_tenant(ledger._client, tenant.name) for tenant in await ledger.tenants()]))


def faults_of(report: LedgerAudit) -> str:
    """Everything that an audit of the whole ledger says, "" when it agrees."""
    faults = [*report.faults]
    for tenant in report.tenants:
        faults += [f"{tenant.tenant}: {fault}" for fault in tenant.faults]
        faults += [f"{tenant.tenant}: gap {gap}" for gap in tenant.gaps]
        faults += [f"{difference.account}: {difference.counter} differs" for difference in tenant.differences]
    assert report.ok == (not faults)
    return "\n".join(faults)
