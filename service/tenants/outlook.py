"""All tenants at once: what each has spent, what is left, and when it ends at its pace of the last days."""

import asyncio
from itertools import islice

from core.amounts import NANO, epsilon_of
from core.ledger.records import AccountState, Tenant
from core.ledger.transitions import Ledger
from core.reports.series import DAY_S, LedgerSeries
from core.state.masking_counts import MaskingCounts
from service.tenants.answers import AccountOutlook, OutlookPage, TenantOutlook
from service.tenants.service import tenant_block

DAYS = 7  # whose pace counts
_DAY_MS = DAY_S * 1000
_DAYS_MAX = 36_500
_AT_ONCE = 8  # tenants; each takes some ten reads


async def outlook_page(
    ledger: Ledger, series: LedgerSeries, counts: MaskingCounts, *, after: str, limit: int
) -> OutlookPage:
    """Up to `limit` tenants by name after `after`. The work depends on the page alone, but for the list of tenants."""
    listed = await ledger.tenants()
    chosen = list(islice((each for each in listed if each.name > after), limit))
    now_ms = await ledger.now_ms()
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(tenant: Tenant) -> TenantOutlook:
        async with turns:
            accounts = [
                await _account(state, tenant, series, now_ms)
                for state in await ledger.own_accounts(tenant.name)
                if state.total.count
            ]
            refused = await counts.over_budget(tenant.name, DAYS)
        ends = [each["ends_ms"] for each in accounts if each["ends_ms"] is not None]
        return {**tenant_block(tenant), "accounts": accounts, "ends_ms": min(ends, default=None), "refused": refused}

    return {
        "at_ms": now_ms,
        "days": DAYS,
        "tenants": list(await asyncio.gather(*map(one, chosen))),
        "next_cursor": chosen[-1].name if chosen and chosen[-1].name != listed[-1].name else None,
    }


async def _account(state: AccountState, tenant: Tenant, series: LedgerSeries, now_ms: int) -> AccountOutlook:
    """The pace is the mean of the last DAYS days, or since the tenant was opened, of at least one day."""
    stop_ms = (now_ms // _DAY_MS + 1) * _DAY_MS
    first_ms = stop_ms - (DAYS + 1) * _DAY_MS
    points = await series.spent(tenant.name, state.unit, step_s=DAY_S, first_ms=first_ms, stop_ms=stop_ms)
    since_ms = max(first_ms + _DAY_MS, tenant.created_ms)
    days = max(1.0, (now_ms - since_ms) / _DAY_MS)
    per_day = (points[-1].committed_epsilon_nano - points[0].committed_epsilon_nano) / NANO / days
    spent = (state.committed.epsilon_nano + state.reserved.epsilon_nano) / NANO
    share = state.used_share
    ends_ms = now_ms if share >= 1 else None
    if share < 1 and share and per_day:  # nothing more is admitted at the sum `spent / share`, if the mix stays
        ends_in_days = (spent / share - spent) / per_day
        ends_ms = now_ms + int(ends_in_days * _DAY_MS) if ends_in_days < _DAYS_MAX else None
    return {
        "account": state.account,
        "unit": state.unit.value,
        "spent": spent,
        "remaining": epsilon_of(state.remaining.epsilon_nano),
        "used_share": share,
        "per_day": per_day,
        "ends_ms": ends_ms,
    }
