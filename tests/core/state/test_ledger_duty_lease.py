"""The lease of the duties: one holder, fencing numbers that grow, and no seal of a holder that has lost it."""

import asyncio

import pytest
from ledger_kit import LOST_REPLY, MASTER_KEY, charge, limits, released

from core.accounting.events import Unit
from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.hash_chain.sealer import Sealer
from core.redis import names
from core.redis.client import LedgerClient, connect
from core.state.gateways import DutyLease

LONG_S = 600.0


def ends(go, admin) -> None:
    """The lease ends, as it does by the clock of Redis."""
    go(admin.call("DEL", names.DUTIES_KEY))


@pytest.fixture
def sealers(go, ledger, client, tmp_path):
    """Two gateways' sealers on a ledger with one tenant."""
    go(ledger.open_tenant("acme", limits=limits(50)))
    found = [Sealer(client, MASTER_KEY, tmp_path / name) for name in ("one.epoch", "two.epoch")]
    for sealer in found:
        go(sealer.check())
        go(sealer.seal(always=True))
    return found


def test_one_holder_at_a_time_with_growing_fencing_numbers(go, ledger, client, admin):
    one, two = DutyLease(client, ttl_s=LONG_S), DutyLease(client, ttl_s=LONG_S)
    assert not one.is_held
    assert go(one.take())
    assert (one.fence, one.is_held) == ("1", True)
    assert not go(two.take())
    assert two.last.holder == one.holder
    assert go(one.take())
    assert one.fence == "1"  # a renewal keeps it
    assert 0 < go(admin.call("PTTL", names.DUTIES_KEY)) <= LONG_S * 1000
    go(two.release())  # of another's lease: no effect
    assert not go(two.take())
    go(one.release())
    assert one.fence is None
    assert go(two.take())
    assert two.fence == "2"
    assert go(one.take(force=True))
    assert one.fence == "3"
    assert not go(two.take())
    assert two.fence is None


def test_the_lease_ends_by_itself_and_its_holder_stops_earlier(go, ledger, client):
    now = [100.0]
    one, two = DutyLease(client, ttl_s=1, clock=lambda: now[0]), DutyLease(client, ttl_s=LONG_S)
    assert go(one.take())
    now[0] += 0.89
    assert one.is_held
    now[0] += 0.02
    assert one.fence is None

    async def until_taken():
        while not await two.take():
            await asyncio.sleep(0.05)

    go(asyncio.wait_for(until_taken(), 300))
    assert two.fence == "2"


def test_a_lost_reply_gives_no_second_number(go, faulty):
    lease = DutyLease(faulty.client, ttl_s=LONG_S)
    faulty.plan = [LOST_REPLY]
    assert go(lease.take())
    assert (lease.fence, faulty.met) == ("1", 1)


def test_a_holder_that_wakes_up_after_its_lease_seals_nothing(go, ledger, client, admin, sealers, tmp_path):
    """It was paused between its reads and its write: its own clock says nothing, so the script has to refuse it."""
    (paused, next_one), stopped_clock = sealers, [0.0]
    old = DutyLease(client, ttl_s=LONG_S, clock=lambda: stopped_clock[0])
    assert go(old.take())
    released(go, ledger, [charge(1)])
    ends(go, admin)
    assert old.is_held  # it believes so
    chain = go(client.call("XRANGE", names.SEAL_CHAIN_KEY, "-", "+"))
    assert go(paused.seal(lease=old)) is None  # nobody has the lease
    new = DutyLease(client, ttl_s=LONG_S)
    assert go(new.take())
    assert go(paused.seal(lease=old)) is None  # another has it, with a higher number
    assert go(client.call("XRANGE", names.SEAL_CHAIN_KEY, "-", "+")) == chain
    assert go(next_one.seal(lease=new)) == 3
    assert go(paused.seal(lease=old)) is None
    go(paused.follow())
    report = go(audit_ledger(client, MASTER_KEY, tmp_path / "one.epoch"))
    assert report.ok, report


def test_a_start_seals_while_another_holds_the_lease(go, ledger, client, sealers, tmp_path):
    lease = DutyLease(client, ttl_s=LONG_S)
    assert go(lease.take())
    released(go, ledger, [charge(1)])
    started = Sealer(client, MASTER_KEY, tmp_path / "three.epoch")
    go(started.check())
    assert go(started.seal(always=True)) == 3
    released(go, ledger, [charge(1)])
    assert go(sealers[0].seal(lease=lease)) == 4


@pytest.fixture
def other(go, server):
    """A client that a test may stop."""
    other = LedgerClient(connect(url=server.url))
    yield other
    go(other.close())


def test_a_follower_notices_an_older_copy(go, sealers, admin, other, tmp_path):
    follower = Sealer(other, MASTER_KEY, tmp_path / "two.epoch")
    go(follower.check())
    go(follower.follow())
    go(admin.call("DEL", names.SEAL_CHAIN_KEY))
    with pytest.raises(LedgerNotTrusted, match="older state"):
        go(follower.follow())
    assert other.is_stopped


def test_a_holder_that_rejects_the_ledger_ends_its_lease(go, ledger, client, admin, sealers, other, tmp_path):
    holder, lease = Sealer(other, MASTER_KEY, tmp_path / "one.epoch"), DutyLease(other, ttl_s=LONG_S)
    go(holder.check())
    assert go(lease.take())
    account = go(admin.call("DUMP", "{acme}:account:token"))
    go(ledger.reserve("acme", [charge(1, unit=Unit.RECORD)]))
    go(admin.call("DEL", "{acme}:account:token"))
    with pytest.raises(LedgerNotTrusted):
        go(holder.seal(lease=lease))
    with pytest.raises(LedgerUnavailable):
        go(other.call("PING"))
    assert go(DutyLease(client, ttl_s=LONG_S).take())
    go(admin.call("RESTORE", "{acme}:account:token", 0, account))
