"""Limits of load that gateways share: never more than the limit and its slack, and all of it through any gateway."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_kit import LOST_REPLY, Clock

from core.errors import LedgerUnavailable
from core.redis import names
from core.redis.client import LedgerClient, connect
from core.state.shared_limit import HELD_S, SharedLimit


@pytest.fixture
def times() -> Clock:
    return Clock(1_000.0)


@pytest.fixture
def limit(client, times):
    """One gateway's part of the limit of `acme`."""

    def made(
        *, capacity: int, per_minute: int, credit: int = 1, by: LedgerClient = client, times: Clock = times
    ) -> SharedLimit:
        return SharedLimit(
            by,
            lambda name: names.shared_limit_key(name, "requests"),
            capacity=capacity,
            per_minute=per_minute,
            credit=credit,
            clock=times,
            redis_clock=lambda: int(times() * 1000),
        )

    return made


async def admitted(limit: SharedLimit, times: int) -> int:
    return sum([(await limit.take("acme")).admitted for _ in range(times)])


async def settled(limit: SharedLimit) -> None:
    """Until no request to Redis is on its way."""
    while any(lease.asking is not None for lease in limit._leases.values()):
        await asyncio.sleep(0)


def test_one_gateway_gets_exactly_the_limit(go, ledger, limit, times):
    one = limit(capacity=50, per_minute=50)
    assert go(admitted(one, 80)) == 50
    refused = go(one.take("acme"))
    assert (refused.admitted, one.is_exceeded("acme")) == (False, True)
    assert 0 < refused.wait_s < 1.3
    times.now += 6  # five more
    assert not one.is_exceeded("acme")
    assert go(admitted(one, 20)) == 5
    times.now += 3600
    assert go(admitted(one, 80)) == 50  # and never more than the limit at once


def test_what_is_left_is_shown(go, ledger, limit):
    one = limit(capacity=3, per_minute=3)

    async def taken():
        shown = []
        for _ in range(4):
            shown.append(await one.take("acme"))
            await settled(one)
        return shown

    found = go(taken())
    assert [(one.admitted, int(one.left)) for one in found] == [(True, 2), (True, 1), (True, 0), (False, 0)]
    assert found[3].wait_s == 20


def test_several_gateways_get_the_limit_together(go, ledger, limit):
    gateways = [limit(capacity=100, per_minute=100, credit=2) for _ in range(4)]

    async def all_at_once() -> int:
        return sum(await asyncio.gather(*(admitted(one, 60) for one in gateways)))

    assert 100 <= go(all_at_once()) <= 100 + 4 * 2
    assert go(all_at_once()) == 0


def test_a_caller_that_changes_gateways_gets_all_of_it(go, ledger, limit, times):
    one, two = limit(capacity=60, per_minute=60), limit(capacity=60, per_minute=60)
    assert go(admitted(one, 20)) == 20
    go(settled(one))
    times.now += 1
    go(one.return_unused())  # what the first leased and did not use
    assert 40 <= go(admitted(two, 60)) <= 42


async def second(times: Clock, *gateways: SharedLimit, trickle: SharedLimit | None = None) -> int:
    """A second passes, with two requests at `trickle`; then each gateway returns what it does not use."""
    taken = 0
    for _ in range(2):
        times.now += 0.5
        if trickle is not None:
            taken += await admitted(trickle, 1)
    for one in gateways:
        await settled(one)
        await one.return_unused()
    return taken


def test_a_trickle_beyond_the_time_for_which_redis_counts_a_lease_admits_nothing_more(go, ledger, limit, times):
    """Also if the gateway returns nothing meanwhile, as one whose event loop was stopped."""
    for returns in (True, False):
        times.now += 3600
        one, two = limit(capacity=600, per_minute=600), limit(capacity=600, per_minute=600)
        assert go(admitted(one, 100)) == 100
        go(settled(one))
        for _ in range(int(HELD_S) + 5):
            go(second(times, *([one] if returns else []), trickle=one))
        assert go(admitted(two, 1000)) + go(admitted(one, 1000)) <= 600 + 2, returns


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 1, 1, 2, 7, 40]), st.sampled_from([0, 0.1, 0.5, 1, 5, 16])),
    min_size=5,
    max_size=40,
)


@given(steps=STEPS, per_minute=st.sampled_from([6, 60, 600]), stopped=st.sets(st.integers(0, 2), max_size=1))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_schedule_exceeds_the_limit_and_its_slack_in_any_window(go, admin, limit, steps, per_minute, stopped):
    """Bursts, trickles and pauses at three gateways, of which one may never return anything.

    `excess` is the level of a bucket that leaks at the rate of the limit: its maximum is the most that any window has
    admitted beyond what was refilled in it.
    """
    times, credit = Clock(1_000.0), 2
    gateways = [limit(capacity=per_minute, per_minute=per_minute, credit=credit, times=times) for _ in range(3)]
    bound = per_minute + credit * len(gateways)

    async def run() -> None:
        await admin.call("FLUSHALL")
        excess, ticked_s = 0.0, times.now
        for at, requests, pause_s in steps:
            found = await admitted(gateways[at], requests)
            excess += found
            assert excess <= bound + 0.01, (at, requests)
            end_s = times.now + pause_s
            while times.now < end_s:
                passed_s = min(end_s, ticked_s + 1) - times.now
                times.now += passed_s
                excess = max(0.0, excess - passed_s * per_minute / 60)
                if times.now >= ticked_s + 1:
                    ticked_s = times.now
                    for number, one in enumerate(gateways):
                        await settled(one)
                        if number not in stopped:
                            await one.return_unused()

    go(run())


def test_a_pool_is_shared_and_its_places_come_back(go, ledger, limit, times):
    one, two = limit(capacity=6, per_minute=0), limit(capacity=6, per_minute=0)
    taken = go(admitted(one, 6)), go(admitted(two, 6))
    assert taken[0] == 6
    assert taken[1] <= 1  # its credit
    for _ in range(3):
        one.give_back("acme")
    go(settled(one))
    go(one.return_unused())
    times.now += 1
    assert go(admitted(two, 6)) + taken[1] in (3, 4)
    for _ in range(3):
        one.give_back("acme")


def test_places_of_a_dead_gateway_come_back(go, ledger, limit, times):
    dead, other = limit(capacity=4, per_minute=0), limit(capacity=4, per_minute=0)
    assert go(admitted(dead, 4)) == 4
    go(settled(dead))
    assert go(admitted(other, 4)) <= 1
    times.now += HELD_S + 1
    assert go(admitted(other, 4)) >= 3


def test_places_in_use_stay_taken_while_their_gateway_reports_them(go, ledger, limit, times):
    one, other = limit(capacity=4, per_minute=0), limit(capacity=4, per_minute=0)
    assert go(admitted(one, 4)) == 4
    for _ in range(10):
        times.now += 5
        go(settled(one))
        go(one.return_unused())
    assert go(admitted(other, 4)) <= 1


def test_a_lost_reply_takes_nothing_twice(go, limit, faulty):
    faulty.plan = [LOST_REPLY]
    assert go(admitted(limit(capacity=10, per_minute=10, by=faulty.client), 20)) == 10
    assert faulty.met == 1


def test_without_redis_nothing_is_admitted_beyond_what_was_leased(go, ledger, limit):
    async def scenario() -> tuple[int, bool]:
        client = LedgerClient(connect(url="unix:///nonexistent/redis.sock", timeout_s=0.5))
        one = limit(capacity=100, per_minute=100, credit=2, by=client)
        first = [(await one.take("acme")).admitted for _ in range(2)]
        with pytest.raises(LedgerUnavailable):
            await one.take("acme")
        await client.close()
        return sum(first), one.is_exceeded("acme")

    assert go(scenario()) == (2, False)
