"""Crashes of the archiver at each step, and objects that the store loses: no entry is lost, nothing is shown wrong."""

from __future__ import annotations

import pytest
from archive_kit import Shelf, Stop, another, audited
from ledger_kit import MASTER_KEY

from core.blob_errors import BlobMissing
from core.blobs.local import LocalBlobs
from core.ledger import names
from core.ledger.archive.archive_audit import audit_archive
from core.ledger.archive.standalone import ArchivedHistory
from core.ledger.archive.store import ArchiveStore
from core.ledger.pages import first_in_redis

STEPS = (
    "written",
    "read-back",
    "chain-written",
    "recorded",
    "chain-end-written",
    "trimmed",
    "index-trimmed",
    "chain-trimmed",
)


@pytest.fixture
def shelf(go, client, admin, tmp_path):
    shelf = Shelf(client, tmp_path, trim_client=admin)
    go(shelf.start())
    go(shelf.open())
    return shelf


def shows_all_that_was_removed(go, shelf):
    """The archive without Redis is whole, and its seals record everything that Redis does not have."""

    async def alone():
        store = ArchiveStore(shelf.blobs, MASTER_KEY, (await shelf.archive.store()).ledger)
        history = ArchivedHistory(store, MASTER_KEY)
        await history.open()
        return history, await audit_archive(store, MASTER_KEY)

    first = go(shelf.first())
    if shelf.objects("chain"):
        history, found = go(alone())
        assert found.audit.ok, found
        assert history.archived.get("acme", 0) >= first - 1
        assert history.last.n + 1 >= go(first_in_redis(shelf.client, names.SEAL_CHAIN_KEY))
    else:
        assert first == 1


def test_an_audit_of_the_archive_alone_beside_an_archiver_finds_no_fault(go, shelf):
    """The archiver replaces its copy of the newest seals while the audit reads: before each of its reads in turn."""

    class Interrupted(LocalBlobs):
        reads = at = 0

        async def get(self, key):
            self.reads += 1
            if self.reads == self.at:
                await shelf.history(4)
                assert (await archiver.run_once()).entries
            return await super().get(key)

    archiver = shelf.archiver(keep_entries=1, object_entries=1)
    blobs = Interrupted(shelf.folder / "store")
    go(shelf.history(10))
    go(archiver.run_once())
    ledger = go(shelf.archive.store()).ledger
    for at in range(1, 9):
        blobs.reads, blobs.at = 0, at
        found = go(audit_archive(ArchiveStore(blobs, MASTER_KEY, ledger), MASTER_KEY))
        assert found.audit.ok, (at, found)
        assert blobs.reads >= at


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_after_any_step_is_harmless(go, shelf, step):
    go(shelf.history(10))
    entries = go(shelf.ledger.journal("acme", limit=1000)).entries

    def crash(reached):
        if reached == step:
            raise Stop

    with pytest.raises(Stop):
        go(shelf.archiver(crash).run_once())
    assert go(shelf.faults()) == ""
    assert go(shelf.ledger.journal("acme", limit=1000)).entries == entries
    shows_all_that_was_removed(go, shelf)
    again = Shelf(shelf.client, shelf.folder, trim_client=shelf.trim_client)  # another process
    go(again.start())
    archiver = again.archiver()
    while not go(archiver.run_once()).complete:
        pass
    go(archiver.run_once())
    shows_all_that_was_removed(go, again)
    chain_objects = again.objects("chain")
    go(again.archiver().run_once())
    assert again.objects("chain") == chain_objects, "a process that has nothing to do copies nothing"
    assert go(again.faults()) == ""
    assert go(again.ledger.journal("acme", limit=1000)).entries == entries
    assert go(again.first()) == 36
    index = go(again.client.call("ZRANGEBYSCORE", names.archive_index_key("acme"), "-inf", "+inf"))
    assert [tuple(map(int, row.split(b":")[:2])) for row in index] == [(1, 8), (9, 16), (17, 24), (25, 32), (33, 37)]


def test_a_store_that_loses_an_object_costs_no_entry(go, shelf):
    go(shelf.history(10))
    entries = go(shelf.ledger.journal("acme", limit=1000)).entries

    def lose(step):
        if step == "written":
            shelf.objects()[2].unlink()

    with pytest.raises(BlobMissing):
        go(shelf.archiver(lose).run_once())
    assert go(shelf.first()) == 1

    def crash(step):
        if step == "recorded":
            raise Stop

    with pytest.raises(Stop):
        go(shelf.archiver(crash).run_once())
    lost = shelf.objects()[2].read_bytes()
    path = shelf.objects()[2]
    path.unlink()  # after it was recorded, before anything was removed
    with pytest.raises(BlobMissing):
        go(shelf.round())
    assert go(shelf.first()) == 1
    path.write_bytes(lost)
    go(shelf.round())
    assert go(shelf.first()) == 36
    assert go(shelf.ledger.journal("acme", limit=1000)).entries == entries


def test_a_copy_that_is_damaged_before_it_is_recorded_is_written_again(go, shelf):
    go(shelf.history(10))
    entries = go(shelf.ledger.journal("acme", limit=1000)).entries

    def damage(step):
        if step == "written":
            path = shelf.objects()[2]
            data = bytearray(path.read_bytes())
            data[100] ^= 1
            path.write_bytes(data)
            raise Stop

    with pytest.raises(Stop):
        go(shelf.archiver(damage).run_once())
    assert go(shelf.first()) == 1
    go(shelf.round())
    assert go(shelf.first()) == 36
    assert go(shelf.ledger.journal("acme", limit=1000)).entries == entries


def test_a_lost_object_keeps_the_entries_of_its_tenant_alone(go, shelf):
    go(shelf.open("zoo"))
    go(shelf.history(10))
    go(shelf.history(10, tenant="zoo"))

    def crash(step):
        if step == "chain-end-written":
            raise Stop

    with pytest.raises(Stop):
        go(shelf.archiver(crash).run_once())
    path = next(path for path in shelf.objects() if path.parent.name == "acme")
    whole = path.read_bytes()
    path.unlink()
    archiver = another(go, shelf).archiver()
    with pytest.raises(BlobMissing):
        go(archiver.run_once())
    assert (go(shelf.first()), go(shelf.first("zoo"))) == (1, 36)
    assert go(first_in_redis(shelf.client, names.SEAL_CHAIN_KEY)) > 1
    path.write_bytes(whole)
    assert go(archiver.run_once()).complete
    assert go(shelf.first()) == 36
    assert audited(go, shelf) == ""
