"""The archive of sealed ranges: what is copied, what stays in Redis, and what two archivers do."""

import asyncio

import pytest
from archive_kit import KEEP_SEALS, Shelf, another, audited
from ledger_kit import MASTER_KEY

from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger.hash_chain.export import export_ledger
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.pages import first_in_redis
from core.ledger.reader import JournalFilter
from core.ledger.tenant_rounds import TenantActivity
from core.redis import names
from core.redis.client import LedgerClient, connect


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


def first_seal(go, shelf):
    return go(first_in_redis(shelf.client, names.SEAL_CHAIN_KEY))


def test_old_entries_move_and_everything_reads_across_the_border(go, shelf):
    go(shelf.open("clinic", subjects=True))
    go(shelf.history(4, tenant="clinic", subject="patient-1"))
    go(shelf.history(10))
    before = {
        "entries": [line for line in exported(go, shelf) if line["type"] == "entry"],
        "pages": go(shelf.ledger.journal("acme", limit=1000)).entries,
        "seals": go(shelf.ledger.seals_of("acme", range(1, 42))),
        "accounts": go(shelf.ledger.accounts("acme")),
    }
    found = go(shelf.round())
    assert found.complete
    assert found.copied == 41 + 18, "everything that is sealed is copied"
    assert 20 < found.trimmed < found.copied
    assert go(shelf.first()) > 10
    assert go(shelf.first("clinic")) > 1
    assert first_seal(go, shelf) > 1
    go(Sealer(shelf.client, MASTER_KEY, shelf.epoch_file).check())  # a start needs nothing of the archive

    assert go(shelf.faults()) == ""
    assert [line for line in exported(go, shelf) if line["type"] == "entry"] == before["entries"]
    assert exported(go, shelf)[-1]["ok"]
    assert go(shelf.ledger.journal("acme", limit=1000)).entries == before["pages"]
    assert go(shelf.ledger.seals_of("acme", range(1, 42))) == before["seals"]
    assert go(shelf.ledger.accounts("acme")) == before["accounts"]
    assert go(shelf.numbers()) == list(range(1, 42))
    assert go(shelf.numbers(newest_first=True)) == list(range(41, 0, -1))
    assert go(shelf.round()).trimmed == 0, "nothing is left to remove"

    go(shelf.history(10))
    assert go(shelf.round()).complete
    assert go(shelf.numbers()) == list(range(1, 82))
    assert audited(go, shelf) == ""


def test_pages_by_time_and_by_subject_cross_the_border(go, shelf):
    go(shelf.open("clinic", subjects=True))
    for number in range(12):
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


def test_two_archivers_at_once_lose_nothing(go, shelf):
    other = another(go, shelf)
    for _ in range(3):
        go(shelf.history(6))

        async def both():
            return await asyncio.gather(shelf.round(), other.round(), return_exceptions=True)

        results = go(both())
        assert not [one for one in results if isinstance(one, BaseException)], results
        assert audited(go, shelf) == ""
        assert go(shelf.numbers()) == list(range(1, go(shelf.sealer.current_head()).tenants["acme"].last + 1))


def test_what_the_series_and_the_ranks_do_not_contain_stays(go, shelf):
    go(shelf.open("clinic", subjects=True))
    for _ in range(10):
        go(shelf.release())
        go(shelf.release("clinic", "patient-1"))
        go(shelf.sealer.seal())
    found = go(shelf.round())
    assert (found.trimmed, found.complete) == (0, False)
    for fold in shelf.folds:
        go(fold.fold_all())
    go(shelf.round())
    assert go(shelf.first("clinic")) == 1, "it is not ranked"
    go(shelf.ranks.rank_all())
    assert go(shelf.round()).complete
    assert go(shelf.first()) > 1
    assert go(shelf.first("clinic")) > 1
    assert audited(go, shelf) == ""


def test_redis_keeps_the_newest_entries_and_the_last_of_each_tenant(go, shelf):
    go(shelf.open("idle"))
    go(shelf.history(1, tenant="idle"))
    go(shelf.history(20))
    assert go(shelf.round(keep_entries=1_000)).trimmed == 0
    go(shelf.round(keep_entries=40))
    kept = 82 - go(shelf.first()) + 1
    assert kept > 30
    go(shelf.round(keep_entries=1))
    assert go(shelf.first()) > 60
    assert go(shelf.first("idle")) == 5
    go(shelf.history(1, tenant="idle"))
    assert go(shelf.sealer.seal(always=True))
    assert audited(go, shelf) == ""


def test_an_idle_tenant_keeps_no_old_seal(go, shelf):
    go(shelf.open("idle"))
    go(shelf.history(1, tenant="idle"))
    go(shelf.history(30))
    go(shelf.round(keep_entries=1))
    last = go(shelf.sealer.current_head()).id.n
    assert last - first_seal(go, shelf) < 4 * KEEP_SEALS
    go(shelf.start())
    go(shelf.history(1, tenant="idle"))
    assert audited(go, shelf) == ""


def test_an_old_epoch_file_is_found_in_the_archive(go, shelf):
    go(shelf.history(1))
    old = shelf.epoch_file.read_bytes()
    go(shelf.history(20))
    go(shelf.round())
    assert first_seal(go, shelf) > 2
    shelf.epoch_file.write_bytes(old)
    go(Shelf(shelf.client, shelf.folder).start())
    shelf.epoch_file.write_bytes(old)
    with pytest.raises(LedgerNotTrusted, match="missing"):
        go(Sealer(shelf.client, MASTER_KEY, shelf.epoch_file).check())
    shelf.epoch_file.write_bytes(old.replace(b'"mac":"', b'"mac":"0'))
    with pytest.raises(LedgerNotTrusted):
        go(Shelf(shelf.client, shelf.folder).start())


def test_a_process_that_was_paused_follows_through_the_archive(go, shelf, server):
    go(shelf.history(1))
    paused, late = another(go, shelf), another(go, shelf)
    go(shelf.history(20))
    go(shelf.round())
    assert first_seal(go, shelf) > 2
    connection = LedgerClient(connect(url=server.url))
    go(paused.sealer.verify_connection(connection.call))
    go(connection.close())
    go(paused.sealer.follow())
    assert go(late.sealer.seal()) is None
    assert go(late.sealer.current_head()).id == go(shelf.sealer.current_head()).id
    assert not shelf.client.is_stopped


def test_a_seal_that_needs_what_another_process_removes_is_left_to_the_next_round(go, shelf):
    go(shelf.open("idle"))
    go(shelf.history(12))
    other, activity = another(go, shelf), TenantActivity(shelf.client, check_interval_s=60)

    async def positions():
        await other.history(12)  # the seals repeat the idle tenant
        assert (await other.round(keep_entries=1)).trimmed
        return await activity.positions()

    go(shelf.release("idle"))
    assert go(shelf.sealer.seal(positions=positions)) is None
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


@pytest.mark.parametrize("change", ["route", "missing"])
def test_a_changed_journal_is_never_archived(go, shelf, admin, change):
    go(shelf.history(10))
    entries = go(admin.call("XRANGE", names.journal_key("acme"), "-", "+"))
    go(admin.call("DEL", names.journal_key("acme")))
    for entry_id, fields in entries:
        if entry_id == b"5-0" and change == "missing":
            continue
        changed = {**fields, b"route": b"changed"} if entry_id == b"5-0" else fields
        flat = [part for pair in changed.items() for part in pair]
        go(admin.call("XADD", names.journal_key("acme"), entry_id, *flat))
    with pytest.raises(LedgerNotTrusted, match="are not the ones that seal"):
        go(shelf.round())
    assert go(first_in_redis(shelf.trim_client, names.journal_key("acme"))) == 1
    assert shelf.client.is_stopped
    go(admin.call("FLUSHALL"))


def test_a_missing_seal_is_never_archived(go, shelf, admin):
    go(shelf.history(10))
    go(admin.call("XDEL", names.SEAL_CHAIN_KEY, "4-0"))
    with pytest.raises(LedgerNotTrusted, match="Seal 4 of the ledger is missing"):
        go(shelf.round())
    go(admin.call("FLUSHALL"))


def test_only_the_archiver_may_remove_entries(go, client, admin, server, tmp_path):
    """On a deployment the ledger's own user may not: a round fails after it has copied everything."""
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
    assert go(shelf.round()).trimmed > 20
    go(shelf.trim_client.close())
    assert go(shelf.faults()) == ""
