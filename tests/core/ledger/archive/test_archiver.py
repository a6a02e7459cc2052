"""The archive of sealed ranges: what moves, what stays, and what two archivers do."""

from __future__ import annotations

import asyncio

import pytest
from archive_kit import Shelf, another, audited
from ledger_kit import MASTER_KEY

from core.blobs.local import LocalBlobs
from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger import names
from core.ledger.activity import TenantActivity
from core.ledger.client import LedgerClient, connect
from core.ledger.hash_chain.archived import CHAIN
from core.ledger.hash_chain.chain import SealChain, seal_entry
from core.ledger.hash_chain.export import export_ledger
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.journal_pages import JournalFilter
from core.ledger.pages import first_in_redis
from core.ledger.spending import spending_by_key


@pytest.fixture
def shelf(go, client, admin, tmp_path):
    shelf = Shelf(client, tmp_path, trim_client=admin)
    go(shelf.start())
    go(shelf.open())
    return shelf


def exported(go, shelf):
    async def lines():
        return [line async for line in export_ledger(shelf.client, MASTER_KEY, shelf.epoch_file, archive=shelf.archive)]

    return go(lines())


def test_old_entries_move_and_everything_reads_across_the_border(go, shelf):
    go(shelf.open("clinic", subjects=True))
    go(shelf.history(4, tenant="clinic", subject="patient-1"))
    go(shelf.history(10))
    before = {
        "entries": [line for line in exported(go, shelf) if line["type"] == "entry"],
        "pages": go(shelf.ledger.journal("acme", limit=1000)).entries,
        "seals": go(shelf.ledger.seals_of("acme", range(1, 42))),
        "spending": go(spending_by_key(shelf.client, "acme")),
        "accounts": go(shelf.ledger.accounts("acme")),
    }
    found = go(shelf.round())
    assert found.complete
    assert 0 < found.trimmed < found.entries, "whole segments are archived, and the newest 6 entries stay"
    assert go(shelf.first()) == 36  # of 41 entries
    assert go(shelf.first("clinic")) > 1
    assert found.seals_trimmed > 0
    go(Sealer(shelf.client, MASTER_KEY, shelf.epoch_file).check())  # a start needs nothing of the archive

    assert go(shelf.faults()) == ""
    assert [line for line in exported(go, shelf) if line["type"] == "entry"] == before["entries"]
    assert exported(go, shelf)[-1]["ok"]
    assert go(shelf.ledger.journal("acme", limit=1000)).entries == before["pages"]
    assert go(shelf.ledger.seals_of("acme", range(1, 42))) == before["seals"]
    assert go(spending_by_key(shelf.client, "acme", archive=shelf.archive)) == before["spending"]
    assert go(shelf.ledger.accounts("acme")) == before["accounts"]
    assert go(shelf.numbers()) == list(range(1, 42))
    assert go(shelf.numbers(newest_first=True)) == list(range(41, 0, -1))
    assert go(shelf.round()).entries == 0, "nothing is left to move"

    go(shelf.history(10))
    assert go(shelf.round()).complete
    assert go(shelf.numbers()) == list(range(1, 82))
    assert go(shelf.faults()) == ""


def test_pages_by_time_and_by_subject_cross_the_border(go, shelf):
    go(shelf.open("clinic", subjects=True))
    for number in range(8):
        go(shelf.history(1, tenant="clinic", each=1, subject=f"patient-{number % 2}"))
    every = go(shelf.ledger.journal("clinic", limit=1000)).entries
    account = next(line.account for entry in every for line in entry.subjects)
    own = go(shelf.numbers("clinic", account))
    wanted = JournalFilter(from_ms=every[5].at_ms, to_ms=every[-3].at_ms)
    timed = [entry.seq for entry in every if every[5].at_ms <= entry.at_ms < every[-3].at_ms]
    go(shelf.round())
    assert go(shelf.first("clinic")) > 5
    assert go(shelf.numbers("clinic", account)) == own
    assert go(shelf.numbers("clinic", account, newest_first=True)) == own[::-1]
    assert go(shelf.numbers("clinic", wanted=wanted)) == timed
    assert go(shelf.numbers("clinic", wanted=wanted, newest_first=True)) == timed[::-1]
    for entry in every:
        expected = next(one.seq for one in every if one.at_ms >= entry.at_ms)
        assert go(shelf.ledger.first_entry_at("clinic", entry.at_ms)) == expected


def test_two_archivers_record_each_range_once(go, shelf):
    go(shelf.history(10))
    other = Shelf(shelf.client, shelf.folder, trim_client=shelf.trim_client)
    go(other.start())

    async def both():
        return await asyncio.gather(shelf.round(), other.round(), return_exceptions=True)

    results = go(both())
    assert not [one for one in results if isinstance(one, BaseException)], results
    chain = SealChain(shelf.client, MASTER_KEY)
    recorded = go(chain.head()).tenants["acme"].archived
    assert recorded == 37
    assert go(shelf.faults()) == "", "among others, each range is recorded once"
    assert go(shelf.numbers()) == list(range(1, 42))


def test_what_the_series_do_not_contain_stays(go, shelf):
    go(shelf.history(5))
    for _ in range(10):
        go(shelf.release())
        go(shelf.sealer.seal())
    found = go(shelf.round())  # 21 entries are folded, of 41
    assert (found.entries, found.trimmed, found.waiting) == (35, 21, 14)
    assert go(shelf.first()) == 22
    go(shelf.fold())
    assert go(shelf.round()).trimmed == 14
    assert go(shelf.faults()) == ""


def test_what_the_ranks_do_not_contain_stays(go, shelf):
    go(shelf.open("clinic", subjects=True))
    for _ in range(8):
        go(shelf.release("clinic", "patient-1"))
        go(shelf.sealer.seal())
    for fold in shelf.folds:
        go(fold.fold_all())
    go(shelf.round())
    assert go(shelf.first("clinic")) == 1
    go(shelf.ranks.rank_all())
    go(shelf.round())
    assert go(shelf.first("clinic")) > 1
    assert go(shelf.faults()) == ""


def test_entries_move_by_their_age_and_the_last_one_stays(go, shelf):
    go(shelf.history(3))
    assert go(shelf.round(keep_entries=100)).entries == 0
    found = go(shelf.round(keep_entries=100, after_ms=1))
    assert found.entries == 13
    assert go(shelf.first()) == 13
    assert go(shelf.round(keep_entries=100, after_ms=1)).trimmed == 0
    go(shelf.start())
    go(shelf.history(1))
    assert go(shelf.faults()) == ""


def test_everything_is_archived_on_demand_and_redis_keeps_what_the_policy_keeps(go, shelf):
    go(shelf.history(3))
    found = go(shelf.round(everything=True))
    assert (found.entries, found.trimmed) == (13, 0)
    assert go(shelf.first()) == 1
    assert go(shelf.faults()) == ""
    go(shelf.history(8))
    go(shelf.round())
    assert go(shelf.first()) == 40
    assert go(shelf.faults()) == ""


def test_an_object_is_bounded_by_bytes_also_with_large_entries(go, shelf):
    """A release with many subjects is one large entry. Each object but a single entry's has at most so many bytes."""
    go(shelf.open("clinic", subjects=True))
    for number in range(12):
        go(shelf.release("clinic", [f"patient-{number}-{one}" for one in range(60 if number % 3 == 0 else 1)]))
        if number % 4 == 3:
            go(shelf.sealer.seal())
    go(shelf.fold())
    stored = go(shelf.ledger.journal("clinic", limit=1000)).entries
    bound = 5000
    go(shelf.round(everything=True, object_entries=100, object_bytes=bound, keep_seals=1))

    async def sizes(stream):
        store = await shelf.archive.store()
        found = []
        async for range_ in shelf.archive.ranges(stream):
            one = await store.read(range_, check=True)
            entries = [raw for batch in one.batches(range_.first, range_.last) for raw in batch]
            found.append((len(entries), sum(len(k) + len(v) for _, fields in entries for k, v in fields.items())))
        return found

    for stream in ("clinic", CHAIN):
        found = go(sizes(stream))
        assert all(count == 1 or size <= bound for count, size in found), found
    assert sum(count for count, _ in go(sizes("clinic"))) == len(stored)
    assert len(go(sizes("clinic"))) > 4
    go(shelf.round(keep_entries=1, object_entries=1))
    assert go(shelf.ledger.journal("clinic", limit=1000)).entries == stored
    assert go(shelf.faults()) == ""


def test_an_idle_tenant_does_not_keep_old_seals(go, shelf):
    go(shelf.open("idle"))
    go(shelf.history(12))
    go(shelf.round())
    chain = SealChain(shelf.client, MASTER_KEY)
    head = go(chain.head())
    first = go(first_in_redis(shelf.client, names.SEAL_CHAIN_KEY))
    assert first > 1
    assert head.tenants["idle"].n >= first
    assert go(shelf.ledger.seals_of("idle", [1])) == {1: 1}
    go(shelf.start())
    assert go(shelf.faults()) == ""
    go(shelf.release("idle"))
    go(shelf.sealer.seal())
    assert go(shelf.faults()) == ""


def test_idle_tenants_are_repeated_a_few_in_each_seal(go, shelf):
    """No seal grows with the number of idle tenants, and none that one of them needs is removed."""
    idle = [f"idle-{number}" for number in range(7)]
    for tenant in idle:
        go(shelf.open(tenant))
    go(shelf.history(12))
    archiver = shelf.archiver(keep_seals=8, repeats_max=2)
    rounds = 0
    while not go(archiver.run_once()).complete:
        go(shelf.start())
        rounds += 1
        assert rounds < 10
    assert rounds >= 3
    head = go(SealChain(shelf.client, MASTER_KEY).head())
    first = go(first_in_redis(shelf.client, names.SEAL_CHAIN_KEY))
    assert first > 1
    assert all(head.tenants[tenant].n >= first for tenant in idle)

    async def repeated() -> list[int]:
        seals = [seal async for seal in shelf.archive.seals(13, head.id.n)]
        async for raw in SealChain(shelf.client, MASTER_KEY).raw_seals():
            seals.append(seal_entry(raw, MASTER_KEY))
        return [sum(not segment.is_new for segment in seal.segments) for seal in seals]

    assert max(go(repeated())) == 2
    assert go(archiver.run_once()).complete
    assert go(SealChain(shelf.client, MASTER_KEY).head()).id == head.id, "nothing is recorded without need"
    go(shelf.start())
    assert go(shelf.faults()) == ""


def test_an_old_epoch_file_is_found_in_the_archive(go, shelf, tmp_path):
    go(shelf.history(1))
    old = shelf.epoch_file.read_bytes()
    go(shelf.history(12))
    go(shelf.round())
    shelf.epoch_file.write_bytes(old)
    go(Shelf(shelf.client, shelf.folder).start())
    shelf.epoch_file.write_bytes(old)
    with pytest.raises(LedgerNotTrusted, match="missing"):
        go(Sealer(shelf.client, MASTER_KEY, shelf.epoch_file).check())
    shelf.epoch_file.write_bytes(old.replace(b'"mac":"', b'"mac":"0'))
    with pytest.raises(LedgerNotTrusted):
        go(Shelf(shelf.client, shelf.folder).start())


def test_a_changed_entry_is_never_archived(go, shelf, admin):
    go(shelf.history(10))
    entries = go(admin.call("XRANGE", names.journal_key("acme"), "-", "+"))
    go(admin.call("DEL", names.journal_key("acme")))
    for entry_id, fields in entries:
        changed = {**fields, b"route": b"changed"} if entry_id == b"5-0" else fields
        go(
            admin.call(
                "XADD", names.journal_key("acme"), entry_id, *(part for pair in changed.items() for part in pair)
            )
        )
    with pytest.raises(LedgerNotTrusted, match="are not the ones that seal"):
        go(shelf.round())
    assert go(first_in_redis(shelf.trim_client, names.journal_key("acme"))) == 1
    assert shelf.client.is_stopped
    go(admin.call("FLUSHALL"))


def test_only_the_archiver_may_remove_entries(go, client, admin, server, tmp_path):
    """On a deployment the ledger's own user may not: a round fails after it has copied and recorded them."""
    shelf = Shelf(client, tmp_path)
    go(shelf.start())
    go(shelf.open())
    go(shelf.history(10))
    if server.url != server.archiver_url:
        with pytest.raises(LedgerUnavailable, match="permit"):
            go(shelf.round())
        assert go(shelf.first()) == 1
        assert go(shelf.faults()) == ""
    shelf.trim_client = LedgerClient(connect(url=server.archiver_url))
    assert go(shelf.round()).trimmed == 35
    go(shelf.trim_client.close())
    assert go(shelf.faults()) == ""


def test_seals_that_another_archiver_has_recorded_are_not_deleted(go, shelf):
    other = another(go, shelf)
    first, second = shelf.archiver(), other.archiver()
    go(shelf.history(10))
    go(first.run_once())
    assert go(second.run_once(everything=True)).entries
    go(shelf.history(10))
    assert go(first.run_once()).entries
    assert audited(go, shelf) == ""


def test_a_round_that_reads_what_another_archiver_removes_gives_up(go, shelf):
    go(shelf.history(10))
    other = another(go, shelf)

    class Interrupted(LocalBlobs):
        rounds = 0

        async def put(self, *args, **options):
            self.rounds += 1
            if self.rounds == 1:
                assert (await other.round()).trimmed
            await super().put(*args, **options)

    slow = another(go, shelf, Interrupted(shelf.folder / "store"))
    archiver = slow.archiver()
    assert not go(archiver.run_once()).complete
    assert not shelf.client.is_stopped
    assert go(archiver.run_once()).complete
    assert audited(go, shelf) == ""
    assert go(shelf.numbers()) == list(range(1, 42))


def seal_during(go, shelf, work):
    """Seal, with `work` between the read of the end of the chain and the reads of the tenants."""
    activity = TenantActivity(shelf.client, check_interval_s=60)

    async def positions():
        await work()
        return await activity.positions()

    return go(shelf.sealer.seal(positions=positions))


def test_a_seal_that_needs_what_another_process_removes_is_left_to_the_next_round(go, shelf):
    go(shelf.open("idle"))
    go(shelf.history(12))
    other = another(go, shelf)
    go(shelf.release("idle"))
    assert seal_during(go, shelf, other.round) is None
    assert not shelf.client.is_stopped
    go(shelf.release("idle"))
    assert go(shelf.sealer.seal())
    assert audited(go, shelf) == ""


def test_missing_entries_stop_the_client_if_no_seal_has_followed(go, shelf, admin):
    go(shelf.history(12))
    go(shelf.round())
    go(shelf.release())
    go(admin.call("XTRIM", names.journal_key("acme"), "MAXLEN", 0))
    with pytest.raises(LedgerNotTrusted):
        go(shelf.sealer.seal())
    assert shelf.client.is_stopped
    go(admin.call("FLUSHALL"))


def test_the_archiver_of_a_process_waits_for_its_seal(go, shelf):
    go(shelf.open("idle"))
    go(shelf.history(12))
    go(shelf.release("idle"))
    copied = asyncio.Event()
    rounds = []

    async def work():
        archiver = shelf.archiver(lambda step: copied.set() if step == "chain-written" else None)
        rounds.append(asyncio.create_task(archiver.run_once()))
        await copied.wait()
        await asyncio.wait(rounds, timeout=0.5)
        assert not rounds[0].done()

    assert seal_during(go, shelf, work)
    assert go(asyncio.wait_for(rounds[0], 300)).complete
    assert audited(go, shelf) == ""


def test_a_process_that_was_paused_follows_through_the_archive(go, shelf, server):
    go(shelf.history(1))
    paused, late = another(go, shelf), another(go, shelf)
    go(shelf.history(12))
    go(shelf.round())
    assert go(first_in_redis(shelf.client, names.SEAL_CHAIN_KEY)) > 1
    connection = LedgerClient(connect(url=server.url))
    go(paused.sealer.verify_connection(connection.call))
    go(connection.close())
    go(paused.sealer.follow())
    assert go(late.sealer.seal()) is None
    assert go(late.sealer.current_head()).id == go(shelf.sealer.current_head()).id
    assert not shelf.client.is_stopped
