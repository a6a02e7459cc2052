"""The audit of the archive alone."""

from __future__ import annotations

from dataclasses import dataclass

from core.ledger.archive.standalone import ArchivedHistory
from core.ledger.archive.store import ArchiveStore
from core.ledger.hash_chain.audit import LedgerAudit, replay_history
from core.ledger.hash_chain.replay import JournalReplay
from core.ledger.keys import MasterKey


@dataclass(frozen=True)
class ArchiveAudit:
    """`later` has, by tenant, how many sealed entries are not in the archive: they are in Redis alone."""

    audit: LedgerAudit
    later: dict[str, int]


async def audit_archive(store: ArchiveStore, master_key: MasterKey) -> ArchiveAudit:
    """Check every object: the chain of seals, each archived entry against its seal, and the accounts in each seal.

    What Redis alone has is not checked. Memory is linear in the number of accounts. Raises StoreUnavailable.
    """
    history = ArchivedHistory(store, master_key)
    await history.open()
    replays = await replay_history(history.events(), history.fault_of)
    await history.check_unused()
    reports = []
    for tenant, last in sorted(history.archived.items()):
        replay = replays.get(tenant) or JournalReplay(tenant)
        replay.faults += history.tenant_faults.get(tenant, [])
        reports.append(replay.report(last_seq=last))
    if not history.chain and not history.chain_faults:
        history.chain_faults.append("the archive has no seals")
    later = {
        tenant: sealed - history.archived.get(tenant, 0)
        for tenant, sealed in sorted(history.sealed.items())
        if sealed > history.archived.get(tenant, 0)
    }
    return ArchiveAudit(LedgerAudit(tuple(reports), history.seals, tuple(history.chain_faults)), later)
