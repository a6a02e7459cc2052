"""Every way in which Redis fails: no transition is acknowledged, nothing is counted twice, and it works again after."""

from __future__ import annotations

import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, charge, claim, limits
from redis_faults import FAULTS, hanging

from core.amounts import NANO, Amount
from core.errors import LedgerUnavailable, ReleaseInFlight
from core.ledger.client import LedgerClient, connect
from core.ledger.durability import check_configuration
from core.ledger.ledger import Ledger
from core.ledger.records import Reserved

pytestmark = pytest.mark.slow("outage")

# a file may grow to so many blocks of 512 bytes: a disk that is full after some hundred releases
FULL_DISK = ("sh", "-c", 'trap "" XFSZ; ulimit -f 400; exec "$@"', "sh")


@pytest.fixture
def hasty(go, server, ledger):
    """The ledger over connections of its own that wait briefly."""
    client = LedgerClient(connect(url=server.url, timeout_s=0.3))
    yield Ledger(client, MASTER_KEY)
    go(client.close())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_acknowledged_during_a_fault(go, ledger, hasty, server, fault):
    go(ledger.open_tenant("acme", limits=limits(10)))
    kept = go(ledger.reserve("acme", [charge(1)]))
    refunded = go(ledger.reserve("acme", [charge(2)]))
    with fault(server):
        for attempt in (
            lambda: hasty.reserve("acme", [charge(4)], claim=claim()),
            lambda: hasty.commit("acme", kept.release_id, response=b"x"),
            lambda: hasty.cancel("acme", refunded.release_id, reason="queue-full"),
            hasty.ping_write,
        ):
            with pytest.raises(LedgerUnavailable):
                go(attempt())

    # a hanging server runs later what it was sent; any other has done nothing
    state = go(ledger.account("acme", "acme/sentence"))
    if fault is not hanging:
        assert (state.committed, state.reserved) == (Amount(0), Amount(3 * NANO))
    go(ledger.commit("acme", kept.release_id, response=b"x"))
    go(ledger.cancel("acme", refunded.release_id, reason="queue-full"))
    try:
        assert isinstance(go(ledger.reserve("acme", [charge(4)], claim=claim())), Reserved)
    except ReleaseInFlight:
        assert fault is hanging
    state = go(ledger.account("acme", "acme/sentence"))
    assert (state.committed, state.reserved) == (Amount(NANO), Amount(4 * NANO))


def test_a_full_disk_ends_the_server_and_keeps_what_was_acknowledged(go, server, tmp_path):
    full = type(server)(tmp_path)
    full.start(wrapper=FULL_DISK)
    acknowledged = 0

    async def keep_releasing(ledger):
        nonlocal acknowledged
        while True:
            hold = await ledger.reserve("acme", [charge(1)])
            await ledger.commit("acme", hold.release_id)
            acknowledged += 1

    async def until_full():
        client = LedgerClient(connect(url=full.url))
        ledger = Ledger(client, MASTER_KEY)
        await ledger.open_tenant("acme", limits=limits(1_000_000))
        with pytest.raises(LedgerUnavailable):
            await keep_releasing(ledger)
        with pytest.raises(LedgerUnavailable):
            await ledger.ping_write()
        await client.close()

    async def with_space_again():
        client = LedgerClient(connect(url=full.url))
        ledger = Ledger(client, MASTER_KEY)
        state, report = await ledger.account("acme", "acme/sentence"), await audit(ledger)
        await ledger.ping_write()
        await client.close()
        return state, report

    try:
        go(until_full())
        assert acknowledged > 10
        full.start()
        state, report = go(with_space_again())
    finally:
        full.stop()
    assert report.ok, report
    assert state.committed.epsilon_nano == acknowledged * NANO
    assert state.reserved.epsilon_nano <= NANO


def test_a_server_that_comes_back_with_weaker_settings_is_refused(go, ledger, client, server):
    client.guard_connections(check_configuration)
    go(ledger.check())
    go(ledger.open_tenant("acme", limits=limits(10)))
    server.stop()
    server.start("--appendfsync", "everysec")
    try:
        for _ in range(2):
            with pytest.raises(LedgerUnavailable, match="appendfsync"):
                go(ledger.reserve("acme", [charge(1)]))
    finally:
        server.stop()
        server.start()
    assert isinstance(go(ledger.reserve("acme", [charge(1)])), Reserved)
