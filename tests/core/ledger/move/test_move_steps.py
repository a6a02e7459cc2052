"""The steps of a move one by one: whose token may do them, and what they refuse."""

from __future__ import annotations

import pytest
from ledger_kit import charge
from move_kit import TENANT, fill, keys_of, opened, sound

from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.jobs import JobStore
from core.ledger.move.sides import Arrival, Departure, LedgerSide
from core.move_errors import MoveRefused


def side(site):
    return LedgerSide(site.name, site.admin, site.shelf.sealer, site.shelf.epoch_file)


def departure(sites, token):
    return Departure(side(sites[0]), TENANT, token=token, target="east")


def arrival(sites, token):
    return Arrival(side(sites[1]), TENANT, token=token, source="main")


def test_a_tenant_is_frozen_only_when_nothing_is_open(go, sites):
    main = sites[0]
    go(opened(main))
    hold = go(main.shelf.ledger.reserve(TENANT, [charge(1)]))
    jobs = JobStore(main.client, gateway="test")
    go(jobs.create(TENANT, "a" * 32, kind="toy", label="job", claim="c", open_max=3, state="s", size=5))
    run = departure(sites, "a")
    go(run.take())
    assert not go(run.freeze()).frozen
    go(main.shelf.ledger.commit(TENANT, hold.release_id))
    work = go(run.freeze())
    assert (work.frozen, work.holds, work.jobs) == (False, 0, 1)
    go(jobs.cancel(TENANT, "a" * 32))
    assert go(run.freeze()).frozen
    assert go(run.freeze()).seq == go(run.check()).seq  # a retry changes nothing


def test_a_run_that_another_one_has_replaced_does_no_step_on_the_source(go, sites):
    main = sites[0]
    go(opened(main))
    go(fill(main))
    stale, run = departure(sites, "a"), departure(sites, "b")
    claims = [key.decode() for key in go(main.admin.call("KEYS", f"{{{TENANT}}}:claim:*"))]
    assert claims
    go(stale.take())
    go(run.take())
    for step in (stale.check, stale.freeze, stale.reopen):
        with pytest.raises(MoveRefused, match="taken over"):
            go(step())
    go(run.freeze())
    for refused in (stale.check(), stale.freeze(), stale.reopen(), stale.clean(claims)):
        with pytest.raises(MoveRefused, match="taken over"):
            go(refused)
    go(run.reopen())
    go(run.reopen())  # a retry
    for refused in (stale.clean(claims), run.clean(claims)):
        with pytest.raises(MoveRefused, match="taken over"):
            go(refused)
    assert go(main.shelf.ledger.reserve(TENANT, [charge(1)])).accounts


def test_a_clean_up_removes_no_evidence_and_no_key_of_others(go, sites):
    main = sites[0]
    go(opened(main))
    run = departure(sites, "a")
    go(run.take())
    go(run.freeze())
    before = go(main.contents())
    for name in ("tenant", "journal", "accounts", "account:sentence", "api-keys", "limit:requests"):
        with pytest.raises(LedgerUnavailable):
            go(run.clean([f"{{{TENANT}}}:{name}"]))
    with pytest.raises(LedgerUnavailable):
        go(run.clean(["{other}:claim:1"]))
    assert go(main.contents()) == before


def test_a_clean_up_ends_when_the_tenant_comes_back(go, sites):
    main = sites[0]
    go(opened(main))
    go(fill(main))
    run = departure(sites, "a")
    go(run.take())
    go(run.freeze())
    back = Arrival(side(main), TENANT, token="b", source="east")
    go(back.begin())
    claims = [key.decode() for key in go(main.admin.call("KEYS", f"{{{TENANT}}}:claim:*"))]
    for refused in (run.clean(claims), run.take()):
        with pytest.raises(MoveRefused):
            go(refused)
    assert go(main.admin.call("EXISTS", *claims)) == len(claims)
    go(back.withdraw())
    go(run.clean(claims))
    assert go(main.admin.call("EXISTS", *claims)) == 0


def test_a_run_that_another_one_has_replaced_does_no_step_on_the_target(go, sites):
    east = sites[1]
    stale, run = arrival(sites, "a"), arrival(sites, "b")
    go(stale.begin())
    go(run.begin())
    entry = (b"1-0", {b"transition": b"open"})
    before = go(east.contents())
    for refused in (
        stale.check(),
        stale.clear([f"{{{TENANT}}}:claim:1"]),
        stale.entries([entry]),
        stale.write(b"\x90"),
        stale.record({b"mode": b"tenant", b"seq": b"1"}),
        stale.activate(),
        stale.withdraw(),
    ):
        with pytest.raises(MoveRefused, match="taken over"):
            go(refused)
    assert go(east.contents()) == before
    go(run.entries([entry]))
    go(run.entries([entry, (b"2-0", entry[1])]))  # a retry, with one more
    with pytest.raises(LedgerUnavailable):
        go(run.entries([(b"4-0", entry[1])]))
    assert len(go(east.contents())["journal"][0]) == 2
    go(run.withdraw())
    go(run.withdraw())  # a retry
    assert go(east.contents()) == {}


def test_a_tenant_that_is_in_use_is_never_replaced(go, sites):
    east = sites[1]
    go(opened(east))
    before = go(east.contents())
    with pytest.raises(MoveRefused, match="a tenant of this name"):
        go(arrival(sites, "a").begin())
    assert go(east.contents()) == before


def test_large_keys_move_in_parts(go, sites, mover):
    main, east = sites
    go(opened(main, subjects=True))
    go(fill(main, subject="person"))

    async def write():
        key = names.subject_entries_key(TENANT, "f" * 64)
        for start in range(0, 2500, 500):
            await main.admin.call(
                "ZADD", key, *(part for n in range(start, start + 500) for part in (n + 1 / 3, f"member-{n}"))
            )
        fields = [part for n in range(1700) for part in (f"sentence:{n}", f"{n} 0 0 0 0")]
        await main.admin.call("HSET", names.sums_key(TENANT, "series"), *fields)
        for place in range(30):
            await main.admin.call("SET", names.reuse_key(TENANT, 100 + place), bytes([place]) * 200_000, "PX", 600_000)
        await main.admin.call("SET", names.reuse_key(TENANT, 99), b"")
        await main.admin.call("SADD", names.tenant_api_keys_key(TENANT), "0" * 16)

    go(write())
    before = keys_of(go(main.contents()))
    go(mover.run(main, east))
    keys = before.pop("api-keys")
    assert keys_of(go(east.contents())) == before
    assert go(main.contents())["api-keys"] == keys
    go(sound(sites))
