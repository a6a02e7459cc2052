"""A tenant moves whole between two ledgers, and each of its releases counts once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from ledger_kit import MASTER_KEY, charge, claim, limits
from move_kit import (
    BYTES_MAX,
    HOMES,
    RECORD,
    TENANT,
    Mover,
    Plan,
    Site,
    Snapshot,
    admitted,
    fill,
    keys_of,
    names_of,
    opened,
    replayed,
    sound,
    spent,
)
from redis_kit import plain

from core.errors import (
    LedgerNotTrusted,
    LedgerUnavailable,
    TenantMoving,
    UnknownTenant,
)
from core.ledger import names
from core.ledger.archive.restore import Restore
from core.ledger.jobs import JobStore
from core.ledger.migration import SCHEMA
from core.ledger.move.tenant_move import MoveSummary
from core.ledger.records import Replay
from core.ledger.reuse import ReuseStore
from core.ledger.vault import Vault
from core.move_errors import MoveRefused

FILLED = 3  # releases that `fill` spends


def entries(contents):
    return contents["journal"][0]


def transitions(contents):
    return [fields[b"transition"].decode() for _, fields in entries(contents)]


@pytest.mark.parametrize("subject", [None, "person"])
def test_a_tenant_moves_whole_and_comes_back(go, sites, mover, subject):
    main, east = sites
    go(opened(main, subjects=subject is not None))
    go(fill(main, subject=subject))
    go(main.shelf.sealer.seal())
    before = go(main.contents())

    summary = go(mover.run(main, east))

    after = go(east.contents())
    assert keys_of(after) == keys_of(before)
    assert transitions(after) == [*transitions(before), "depart", "arrive"]
    assert entries(after)[: len(entries(before))] == entries(before)
    assert summary.entries == len(entries(before)) + 1
    assert summary.keys == len(keys_of(before))
    assert go(names_of(main)) == set()
    assert go(names_of(east)) == {TENANT}
    assert {name.partition(":")[0] for name in go(main.contents())} == {
        "tenant",
        "journal",
        "accounts",
        "account",
        "files",
    }
    go(sound(sites))

    used = go(spent(east))
    assert go(replayed(east, "key-1", subject)) == b"answer 1"
    assert go(admitted(sites, subject)) == ["east"]
    assert go(spent(east)) == used + 1
    go(east.shelf.fold())
    before = go(east.contents())

    go(mover.run(east, main))

    assert keys_of(go(main.contents())) == keys_of(before)
    assert go(admitted(sites, subject)) == ["main"]
    assert go(spent(main)) == used + 2
    go(sound(sites))
    go(mover.run(main, east))
    assert go(admitted(sites, subject)) == ["east"]
    go(sound(sites))


def test_a_tenant_returns_by_way_of_a_third_ledger(go, sites, third_server, mover, tmp_path):
    main, east = sites
    west = Site("west", third_server.url, third_server.admin_url, tmp_path / "west")
    go(SCHEMA.begin(west.admin))
    go(west.shelf.start())
    go(opened(main))
    go(fill(main))
    every = (main, east, west)
    for source, target in ((main, east), (east, west), (west, main), (main, west)):
        go(mover.run(source, target))
        assert go(admitted(every)) == [target.name]
        go(sound(every))
    assert go(spent(west)) == FILLED + 4
    for source, target, abort in ((main, east, False), (main, east, True), (east, west, True)):
        with pytest.raises(MoveRefused):
            go(mover.run(source, target, abort=abort))
    assert go(mover.run(east, west)).entries == 0  # it has left `east` for `west`, where it is in use
    assert go(admitted(every)) == ["west"]
    go(west.close())


def test_what_a_request_finds_after_a_move_is_what_was_stored(go, sites, mover):
    main, east = sites
    go(opened(main))
    go(fill(main))

    async def stored(site):
        vault = Vault(site.client, MASTER_KEY, entries_max=10, bytes_max=10_000)
        reuse = ReuseStore(site.client, MASTER_KEY, retention_ms=1000, places=16)
        shelf = site.shelf
        series = await shelf.folds[0].totals(TENANT, [f"sentence:{TENANT}"])
        return (
            await vault.get(TENANT, "name"),
            await reuse.find(TENANT, ["c" * 64]),
            await JobStore(site.client, gateway="test").get(TENANT, "a" * 32),
            await shelf.ledger.accounts(TENANT),
            series,
            [await replayed(site, f"key-{number}") for number in range(2)],
        )

    before = go(stored(main))
    go(mover.run(main, east))
    assert go(stored(east)) == before


def test_open_holds_and_jobs_end_before_the_tenant_leaves(go, sites, mover):
    main, east = sites
    ledger = main.shelf.ledger
    go(opened(main))
    jobs = JobStore(main.client, gateway="test")
    terms = {"kind": "toy", "label": "job", "claim": "c", "open_max": 3, "state": "s", "size": 5}

    async def scenario():
        hold = await ledger.reserve(TENANT, [charge(1)], claim=claim("early"))
        await jobs.create(TENANT, "a" * 32, bytes_max=BYTES_MAX, **terms)
        with pytest.raises(MoveRefused, match="1 open holds and 1 unfinished jobs"):
            await mover.run(main, east, wait_s=0)
        await ledger.cancel(TENANT, (await ledger.reserve(TENANT, [charge(1)])).release_id, reason="test")
        closing = asyncio.Event()
        moving = asyncio.create_task(mover.run(main, east, report=lambda step: step == "closing" and closing.set()))
        await closing.wait()
        while not await main.client.call("HGET", RECORD, "closing"):
            await asyncio.sleep(0.01)
        with pytest.raises(TenantMoving):
            await ledger.reserve(TENANT, [charge(1)])
        with pytest.raises(TenantMoving):
            await jobs.create(TENANT, "b" * 32, **terms)
        assert (await ledger.estimate(TENANT, [charge(1)])).lines
        await jobs.cancel(TENANT, "a" * 32)
        await ledger.commit(TENANT, hold.release_id, response=b"late")
        found = await ledger.reserve(TENANT, [charge(1)], claim=claim("early"))
        assert isinstance(found, Replay)
        await moving

    go(scenario())
    assert go(replayed(east, "early")) == b"late"
    assert go(admitted(sites)) == ["east"]
    go(sound(sites))


def test_a_frozen_tenant_is_refused_by_every_script_and_read_by_no_list(go, sites, mover):
    main, east = sites
    go(opened(main))
    go(fill(main))
    hold = go(main.shelf.ledger.reserve(TENANT, [charge(1)]))
    go(main.shelf.ledger.commit(TENANT, hold.release_id))
    with pytest.raises(ZeroDivisionError):
        go(mover.run(main, east, report=lambda step: step == "activating" and 1 / 0))
    vault = Vault(main.client, MASTER_KEY, entries_max=10, bytes_max=10_000)
    for site in sites:
        ledger, jobs = site.shelf.ledger, JobStore(site.client, gateway="test")
        for refused in (
            lambda ledger=ledger: ledger.tenant(TENANT),
            lambda ledger=ledger: ledger.own_accounts(TENANT),
            lambda ledger=ledger: ledger.reserve(TENANT, [charge(1)]),
            lambda ledger=ledger: ledger.estimate(TENANT, [charge(1)]),
            lambda ledger=ledger: ledger.commit(TENANT, hold.release_id),
            lambda ledger=ledger: ledger.cancel(TENANT, hold.release_id, reason="test"),
            lambda ledger=ledger: ledger.expire(TENANT, hold.release_id, reason="test"),
            lambda ledger=ledger: ledger.open_tenant(TENANT, limits=limits(5)),
            lambda jobs=jobs: jobs.cancel(TENANT, "a" * 32),
        ):
            with pytest.raises(TenantMoving):
                go(refused())
        assert go(names_of(site)) == set()
        go(site.shelf.fold())
        assert go(site.shelf.ledger.expire_overdue()) == 0
    with pytest.raises(TenantMoving):
        go(vault.put(TENANT, "name", b"other", lifetime_s=5))
    go(sound(sites))
    go(mover.run(main, east, abort=True))
    assert go(admitted(sites)) == ["main"]
    assert go(east.contents()) == {}
    go(sound(sites))
    assert go(mover.run(main, east)).entries


def test_a_stale_run_changes_nothing(go, sites, mover):
    """It pauses before any of its commands, another run moves the tenant, which is used there, and it goes on."""
    main, east = sites
    go(opened(main))
    go(fill(main))
    start = [go(Snapshot(site).take()) for site in sites]
    whole = Plan()
    go(mover.run(main, east, plan=whole))
    for at in range(1, whole.commands + 1, 5):
        for snapshot in start:
            go(snapshot.restore())

        async def stale(at=at):
            reached, resume = asyncio.Event(), asyncio.Event()

            async def pause(number):
                if number == at:
                    reached.set()
                    await resume.wait()

            paused = asyncio.create_task(Mover(main).run(main, east, plan=Plan(pause=pause)))
            await reached.wait()
            await mover.run(main, east)
            assert await admitted(sites) == ["east"]
            before = [await site.contents() for site in sites]
            resume.set()
            ended = (await asyncio.gather(paused, return_exceptions=True))[0]
            after = [await site.contents() for site in sites]
            for contents in (before, after):
                contents[0]["tenant"][0].pop(b"away")  # a run that begins by then has its own token there
            assert after == before, at
            return ended

        ended = go(stale())
        assert isinstance(ended, MoveRefused | LedgerUnavailable) or ended.tenant == TENANT, (at, ended)
        assert go(main.client.call("HGET", HOMES, TENANT)) == b"east"
        go(sound(sites))


@pytest.mark.parametrize("aborts", [True, False])
def test_a_run_and_an_abort_at_once_leave_the_tenant_in_use_on_one_ledger_at_most(go, sites, mover, aborts):
    """One of them pauses before any of its commands while the other one is made. Another run then ends the move."""
    main, east = sites
    go(opened(main))
    go(fill(main))
    if not aborts:
        with pytest.raises(ZeroDivisionError):
            go(mover.run(main, east, report=lambda step: step == "activating" and 1 / 0))
    start = [go(Snapshot(site).take()) for site in sites]
    whole = Plan()
    go(mover.run(main, east, plan=whole, abort=not aborts))
    for at in range(1, whole.commands + 1, 5 if aborts else 2):
        for snapshot in start:
            go(snapshot.restore())

        async def both(at=at):
            reached, resume = asyncio.Event(), asyncio.Event()

            async def pause(number):
                if number == at:
                    reached.set()
                    await resume.wait()

            paused = asyncio.create_task(Mover(main).run(main, east, plan=Plan(pause=pause), abort=not aborts))
            await reached.wait()
            used = []
            with suppress(MoveRefused):
                await mover.run(main, east, abort=aborts)
                used = await admitted(sites)
            resume.set()
            ended = (await asyncio.gather(paused, return_exceptions=True))[0]
            assert ended is None or isinstance(ended, MoveRefused | LedgerUnavailable | MoveSummary), (at, ended)
            return used

        used = go(both())
        used += go(admitted(sites))
        assert len(used) <= 2
        go(sound(sites))
        go(mover.run(main, east))
        assert go(admitted(sites)) == ["east"]
        assert go(east.shelf.ledger.account(TENANT, "acme/sentence")).committed_vector[0] == FILLED + len(used) + 1, at
        go(sound(sites))


def test_an_older_copy_of_the_source_is_refused(go, sites, mover):
    main, east = sites
    go(opened(main))
    go(fill(main))
    go(main.shelf.sealer.seal())
    older = go(Snapshot(main).take())
    go(mover.run(main, east))
    go(older.restore(epoch=False))
    with pytest.raises(LedgerNotTrusted):
        go(main.shelf.sealer.check())


def test_a_copy_that_was_left_behind_cannot_be_used_again_unnoticed(go, sites, mover):
    """Whoever can write to Redis removes the mark. The first release is found by the next sealing round."""
    main, east = sites
    go(opened(main))
    go(fill(main))
    go(mover.run(main, east))
    go(main.shelf.start())
    go(main.admin.call("HDEL", RECORD, "away", "schema"))
    go(main.shelf.release(TENANT))
    with pytest.raises(LedgerNotTrusted):
        go(main.shelf.sealer.seal())
    main.client._stopped = False
    assert "follows the tenant's departure" in go(main.shelf.faults())


def change(site, at):
    """Whoever can write to Redis replaces an entry."""
    redis, key = plain(site.admin_url), names.journal_key(TENANT)
    found = redis.xrange(key)
    redis.delete(key)
    for number, (entry, fields) in enumerate(found):
        redis.xadd(key, fields | ({b"mechanism": b"other"} if number == at else {}), id=entry)


@pytest.mark.parametrize("step", ["verifying", "closing", "copying"])
def test_a_changed_journal_is_refused(go, sites, mover, step):
    main, east = sites
    go(opened(main))
    go(fill(main))
    go(main.shelf.sealer.seal())
    with pytest.raises(LedgerNotTrusted):
        go(mover.run(main, east, report=lambda now: now == step and change(main, 3)))
    assert not go(names_of(east))
    if step == "verifying":
        assert go(east.contents()) == {}
        assert go(admitted(sites)) == ["main"]
    else:
        assert go(admitted(sites)) == []


@pytest.mark.parametrize("name", ["account:sentence", "release"])
def test_a_changed_account_is_refused_before_anything_arrives(go, sites, mover, name):
    main, east = sites
    go(opened(main, subjects=True))
    go(fill(main, subject="person"))
    go(main.shelf.sealer.seal())
    redis = plain(main.admin_url)
    [key] = [one for one in redis.keys("{acme}:account:*") if len(one) > 40 and b"sentence" in one]
    assert redis.hset(key if name == "release" else f"{{{TENANT}}}:{name}", "committed", redis.hget(key, "held")) == 0
    with pytest.raises(LedgerNotTrusted):
        go(mover.run(main, east))
    assert go(east.contents()) == {}


def test_an_archived_journal_moves_whole(go, sites, mover):
    main, east = sites
    go(opened(main))
    go(fill(main))
    go(main.shelf.history(6, tenant=TENANT))
    before = go(main.contents())
    assert go(main.shelf.round(everything=True)).trimmed
    assert len(entries(go(main.contents()))) < len(entries(before))
    go(mover.run(main, east))
    after = go(east.contents())
    assert entries(after)[: len(entries(before))] == entries(before)
    assert transitions(after)[len(entries(before)) :] == ["depart", "arrive"]
    go(sound(sites))
    # what stays on the source is sealed and archived as before, and can be trimmed
    go(main.shelf.history(0, tenant=TENANT))
    assert go(main.shelf.round(everything=True)).entries
    go(sound(sites))
    go(east.shelf.history(3, tenant=TENANT))
    go(mover.run(east, main))
    assert go(admitted(sites)) == ["main"]
    go(sound(sites))


def test_a_move_is_refused_where_it_cannot_be_made(go, sites, mover):
    main, east = sites
    go(opened(main))
    with pytest.raises(MoveRefused, match="two ledgers"):
        go(mover.run(main, main))
    go(opened(east))
    with pytest.raises(MoveRefused, match="a tenant of this name"):
        go(mover.run(main, east))
    assert go(admitted(sites)) == ["main", "east"]  # two tenants of one name, which no map of homes would serve
    go(main.admin.call("HSET", HOMES, TENANT, "west"))
    with pytest.raises(MoveRefused, match="lives on the ledger west"):
        go(mover.run(main, east))
    go(east.admin.call("FLUSHALL"))
    go(main.admin.call("HDEL", HOMES, TENANT))
    go(east.admin.call("SET", names.KEY_CHECK_KEY, "other"))
    go(SCHEMA.begin(east.admin))
    with pytest.raises(MoveRefused, match="same schema and master key"):
        go(mover.run(main, east))


def test_an_unknown_tenant_cannot_be_moved(go, sites, mover):
    with pytest.raises(UnknownTenant):
        go(mover.run(*sites))


def test_callers_that_never_stop_are_charged_for_what_was_released(go, sites, mover):
    """Each finds the tenant by a map that is up to an attempt old. A refusal says that the tenant moves."""
    main, east = sites
    go(opened(main))
    at, homes = {site.name: site.shelf.ledger for site in sites}, mover.homes
    released: dict[str, bytes] = {}

    async def caller(number, stop):
        count = 0
        while not stop.is_set():
            count += 1
            key, home = f"{number}-{count}", await homes.home(TENANT)
            while True:
                try:
                    hold = await at[home].reserve(TENANT, [charge(0.001)], claim=claim(key))
                    await asyncio.sleep(0.001)
                    await at[home].commit(TENANT, hold.release_id, response=key.encode())
                    break
                except TenantMoving:
                    await asyncio.sleep(0.005)
                    home = await homes.home(TENANT)
            released[key] = key.encode()

    async def scenario():
        stop = asyncio.Event()
        callers = [asyncio.create_task(caller(number, stop)) for number in range(8)]
        for source, target in ((main, east), (east, main), (main, east)):
            before = len(released)
            while len(released) < before + 20:
                await asyncio.sleep(0.01)
            await mover.run(source, target, settle_s=0.05)
        before = len(released)
        while len(released) < before + 20:
            await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*callers)

    go(scenario())
    assert go(spent(east)) == len(released)
    for key in list(released)[:: len(released) // 25]:
        found = go(east.shelf.ledger.reserve(TENANT, [charge(0.001)], claim=claim(key)))
        assert found.response == released[key]
    assert go(admitted(sites)) == ["east"]
    go(sound(sites))


def test_a_restore_from_the_archive_leaves_away_what_had_left(go, sites, mover, tmp_path):
    main, east = sites
    go(opened(main))
    go(fill(main))
    go(mover.run(main, east))
    go(main.shelf.start())
    go(main.shelf.sealer.seal())
    go(main.shelf.round(everything=True))
    store = go(main.shelf.archive.store())
    go(main.admin.call("FLUSHALL"))
    go(Restore(main.admin, MASTER_KEY, store, tmp_path / "epoch").run())
    assert go(admitted(sites)) == ["east"]
    assert go(names_of(main)) == set()
