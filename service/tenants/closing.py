"""Suspends, resumes and closes tenants.

Closing is a list of steps that can be repeated. The state `closing` is written first, in one step with its entry of the
log of administrative actions: from then on no key and no session of the tenant is accepted, and the ledger reserves
nothing for it. Every gateway repeats the steps of tenants in this state, also after a crash, and the tenant is `closed`
once all of them have been done and no job of it is left. The journal, the accounts and the log stay.
"""

import asyncio
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import InvalidInput, TenantInactive, UnknownKey, UnknownName, UnknownTenant
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.records import Tenant, TenantState
from core.ledger.transitions import Ledger
from core.redis import names
from core.state.alerts import AlertStore
from core.state.keystore import KeyStore
from core.state.masking_counts import MaskingCounts
from core.state.stored_files import AREAS
from core.state.vault import Vault
from service.config.data_dir import owner_folder
from service.files.stored import StoredFiles
from service.http.browser_sessions import BrowserSessions
from service.jobs.runner import JobRunner
from service.operation.maintenance import regularly

ROUND_S = 20.0
BY_GATEWAY = "gateway"
_CHANGES = {
    TenantState.SUSPENDED: ("tenant.suspend", "active"),
    TenantState.ACTIVE: ("tenant.resume", "suspended"),
    TenantState.CLOSING: ("tenant.close", "active suspended"),
    TenantState.CLOSED: ("tenant.closed", "closing"),
}


def wanted_state(word: str) -> TenantState:
    """The state that a person asks for: `active`, `suspended` or `closed`, which begins as `closing`."""
    return TenantState.CLOSING if word == TenantState.CLOSED else TenantState(word)


async def change_state(ledger: Ledger, log: AdminLog, tenant: str, to: TenantState, *, by: str, reason: str) -> Tenant:
    """Change the state of a tenant and log it, in one step. A tenant that has the state stays as it is.

    Raises InvalidInput for a reason that is empty, TenantInactive for a tenant that is closed, UnknownTenant.
    """
    if not reason.strip() or not reason.isprintable():
        raise InvalidInput("Give a reason of one line. The log of administrative actions keeps it.", field="reason")
    action, origins = _CHANGES[to]
    change = {"key": names.tenant_key(tenant), "from": origins, "to": to.value}
    outcome = await log.append(
        by=by, action=action, target=tenant, details={"reason": reason}, change={"state": change}
    )
    if outcome == "unknown-tenant":
        raise UnknownTenant
    found = await ledger.tenant(tenant)
    if outcome != "logged" and found.state.ended and not to.ended:
        raise TenantInactive(code="tenant-closed")
    return found


@dataclass(frozen=True)
class TenantClosing:
    """The steps of closing a tenant, on one gateway."""

    ledger: Ledger
    keys: KeyStore
    sessions: BrowserSessions
    jobs: JobRunner
    files: StoredFiles
    vault: Vault
    alerts: AlertStore
    counts: MaskingCounts
    data_dir: Path
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def close(self, tenant: str) -> None:
        """Remove what is kept for a tenant that is closing. It is closed unless a job of it has not ended yet.

        Raises LedgerUnavailable, StoreUnavailable; the next round then repeats the steps.
        """
        async with self._turn:
            if await self.keys.tenant_state(tenant) is TenantState.CLOSING:
                await self._close(tenant)

    async def _close(self, tenant: str) -> None:
        await self.sessions.end_all(tenant)
        for key in await self.keys.list(tenant):
            with suppress(UnknownKey):
                await self.keys.revoke(tenant, key.key_id, by=BY_GATEWAY)
        for rule in await self.alerts.rule_names(tenant):
            with suppress(UnknownName):
                await self.alerts.delete_rule(tenant, rule)
        await self.alerts.forget(tenant)
        await self.vault.clear(tenant)
        await self.counts.remove(tenant)
        await self._remove_recognisers(tenant)
        for job_id in await self.jobs.store.unfinished_ids(tenant):
            await self.jobs.cancel(tenant, job_id)
        if await self.jobs.store.unfinished_ids(tenant):
            return  # its gateway ends it within seconds; what it makes until then is removed by the next round
        for area in AREAS:
            for name in await self.files.index.names(tenant, area):
                await self.files.remove(tenant, area, name)
        reason = "its data was removed"
        await change_state(self.ledger, self.keys.log, tenant, TenantState.CLOSED, by=BY_GATEWAY, reason=reason)

    async def close_regularly(self) -> None:
        """Until it is cancelled: repeat the steps of tenants that are closing, on this and on other gateways. The
        recognisers of closed tenants are removed from this data directory once."""
        removed: set[str] = set()

        async def one_round() -> None:
            for tenant in await self.ledger.tenants():
                if tenant.state is TenantState.CLOSING:
                    await self.close(tenant.name)
                elif tenant.state is TenantState.CLOSED and tenant.name not in removed:
                    await self._remove_recognisers(tenant.name)
                    removed.add(tenant.name)

        await regularly(one_round, ROUND_S, "tenant-not-closed")

    async def _remove_recognisers(self, tenant: str) -> None:
        folder = owner_folder(self.data_dir / "recognisers", tenant)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
