"""Which tenants have news: none is missed, and idle ones cost a share of one command."""

import asyncio

import pytest
from ledger_kit import MASTER_KEY, Clock, charge, limits, released

from core.amounts import NANO, Amount
from core.errors import LedgerUnavailable
from core.ledger.tenant_rounds import Done, TenantActivity, TenantPosition, over_tenants
from core.ledger.transitions import Ledger
from core.redis import names

TENANTS = [f"tenant-{number}" for number in range(300)]


@pytest.fixture
def many(go, ledger):
    async def opened():
        await asyncio.gather(*(ledger.open_tenant(name, limits=limits(5)) for name in TENANTS))

    go(opened())
    return ledger


def test_every_tenant_is_listed_with_its_last_entry_whatever_happens_between(go, many, client):
    activity = TenantActivity(client, check_interval_s=1e9)
    opened = go(activity.positions())
    assert opened == dict.fromkeys(TENANTS, TenantPosition(1, 0))
    for _ in range(5):  # until they are idle
        go(activity.positions())
    assert go(activity.positions()) == opened
    released(go, many, [charge(1)], tenant="tenant-7")
    released(go, many, [charge(1)], tenant="tenant-299")
    assert go(activity.positions()) == opened | dict.fromkeys(("tenant-7", "tenant-299"), TenantPosition(3, 0))
    released(go, many, [charge(1)], tenant="tenant-7")
    assert go(activity.positions())["tenant-7"].seq == 5
    go(many.open_tenant("newcomer", limits=limits(5)))
    assert go(activity.positions())["newcomer"].seq == 1


def test_a_record_that_was_set_back_is_noticed_within_the_interval(go, many, client, admin):
    clock = Clock(0.0)
    activity = TenantActivity(client, check_interval_s=60, clock=clock)
    released(go, many, [charge(1)], tenant="tenant-5")
    for _ in range(5):
        go(activity.positions())
    go(admin.call("HSET", names.tenant_key("tenant-5"), "seq", 1))
    seen = set()
    for _ in range(12):
        clock.now += 5
        seen.add(go(activity.positions())["tenant-5"].seq)
    assert seen == {3, 1}
    go(admin.call("HSET", names.tenant_key("tenant-5"), "seq", 3))


def test_holds_expire_by_their_deadlines_once(go, many, client):
    now = [1_000_000]
    ledger = Ledger(client, MASTER_KEY, hold_ttl_ms=100, clock=lambda: now[0])
    activity = TenantActivity(client, check_interval_s=1e9)
    for tenant in TENANTS[:3]:
        go(ledger.reserve(tenant, [charge(1)]))
    now[0] += 50
    go(ledger.reserve("tenant-1", [charge(2)]))
    assert go(ledger.expire_overdue(go(activity.positions()))) == 0
    now[0] += 50
    positions = go(activity.positions())
    assert go(ledger.expire_overdue(positions)) == 3
    now[0] += 50
    assert go(ledger.expire_overdue(positions)) == 1  # the deadline is in memory, whether the journal is news or not
    assert go(ledger.expire_overdue(go(activity.positions()))) == 0
    assert go(ledger.account("tenant-1", "tenant-1/sentence")).committed == Amount(3 * NANO)


def test_work_that_failed_is_pending_until_it_is_done(go):
    done, failing = Done(), {"b"}

    async def work(tenant: str) -> int:
        if tenant in failing:
            raise LedgerUnavailable("no answer")
        done.note(tenant, positions[tenant])
        return 1

    positions = {tenant: TenantPosition(1) for tenant in "abcd"}
    with pytest.raises(LedgerUnavailable):
        go(over_tenants(done.pending(positions), work, at_once=2))
    assert done.pending(positions) == ["b"]
    failing.clear()
    assert go(over_tenants(done.pending(positions), work)) == 1
    positions["c"] = TenantPosition(1, 1)  # a current limit was set, which has no entry
    assert done.pending(positions) == ["c"]
