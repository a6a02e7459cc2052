"""An archiver that ends after any step, and a store that loses or damages objects: no entry is lost."""

from __future__ import annotations

import pytest
from archive_kit import Shelf, Stop, audited
from ledger_kit import MASTER_KEY
from tiers import cells

from core.blob_errors import BlobCorrupt, BlobMissing
from core.ledger import names
from core.ledger.archive.restore import Restore

STEPS = ["written", "read-back", "replaced", "indexed", "trimmed", "chain-trimmed"]


@pytest.fixture
def shelf(go, client, admin, tmp_path):
    shelf = Shelf(client, tmp_path, trim_client=admin)
    go(shelf.start())
    go(shelf.open())
    return shelf


@pytest.mark.parametrize("at", cells([1, 2], kind="crash"))
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_after_any_step_is_harmless(go, shelf, admin, step, at):
    go(shelf.history(4))
    go(shelf.round(keep_entries=1_000))
    go(shelf.history(10))
    entries = go(shelf.ledger.journal("acme", limit=1000)).entries
    times = []

    def crash(reached):
        times.append(reached)
        if times.count(step) == at:
            raise Stop

    if step != "chain-trimmed" or at == 1:
        with pytest.raises(Stop):
            go(shelf.archiver(crash).run_once())
    assert audited(go, shelf) == ""
    assert go(shelf.ledger.journal("acme", limit=1000)).entries == entries

    again = Shelf(shelf.client, shelf.folder, trim_client=shelf.trim_client)  # another process
    go(again.start())
    assert go(again.round()).complete
    assert audited(go, again) == ""
    assert go(again.ledger.journal("acme", limit=1000)).entries == entries
    assert go(again.first()) > 10
    objects = again.objects()
    firsts = [path.name[:16] for path in objects]
    assert len(set(firsts)) == len(firsts), "what was replaced is removed"
    go(again.round())
    assert again.objects() == objects

    ledger = go(again.archive.store()).ledger
    go(admin.call("FLUSHALL"))
    store = go(_store(again, ledger))
    report = go(Restore(again.client, MASTER_KEY, store, again.epoch_file).run())
    assert report.entries == len(entries)


async def _store(shelf, ledger):
    await shelf.client.call("SET", names.LEDGER_ID_KEY, ledger)
    store = await shelf.archive.store()
    await shelf.trim_client.call("DEL", names.LEDGER_ID_KEY)
    return store


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_complete_object_that_is_lost_is_written_again_before_anything_is_removed(go, shelf, damage):
    go(shelf.history(10))
    go(shelf.round(keep_entries=1_000))
    path = shelf.objects()[0]
    whole = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(whole[:-1])
    assert go(shelf.round()).trimmed
    assert audited(go, shelf) == ""


def test_an_object_that_is_lost_after_the_removal_of_a_part_keeps_the_rest(go, shelf):
    for _ in range(10):
        go(shelf.release())
        go(shelf.sealer.seal())
    go(shelf.fold())
    go(shelf.round(keep_entries=1_000))
    folded = go(shelf.client.call("HGET", names.tenant_key("acme"), "folded"))
    assert int(folded) > 2
    go(shelf.client.call("HSET", names.tenant_key("acme"), "folded", 2))
    assert not go(shelf.round(keep_entries=1)).complete
    assert go(shelf.first()) == 3
    go(shelf.client.call("HSET", names.tenant_key("acme"), "folded", folded))
    shelf.objects()[0].unlink()
    with pytest.raises(BlobMissing):
        go(shelf.round(keep_entries=1))
    assert go(shelf.first()) == 3
    assert not shelf.client.is_stopped


def test_a_copy_that_is_damaged_as_it_is_written_is_written_again(go, shelf, monkeypatch):
    put = shelf.blobs.put
    damaged = []

    async def damages(key, data, *, create_only=False):
        if key.startswith("archive/") and not damaged:
            damaged.append(key)
            data = data[:-1]
        await put(key, data, create_only=create_only)

    monkeypatch.setattr(shelf.blobs, "put", damages)
    go(shelf.history(10))
    assert go(shelf.round()).trimmed
    assert damaged
    assert audited(go, shelf) == ""


def test_a_store_that_never_keeps_what_it_gets_costs_no_entry(go, shelf, monkeypatch):
    put = shelf.blobs.put

    async def damages(key, data, *, create_only=False):
        await put(key, data[:-1] if key.startswith("archive/") else data, create_only=create_only)

    monkeypatch.setattr(shelf.blobs, "put", damages)
    go(shelf.history(10))
    with pytest.raises(BlobCorrupt):
        go(shelf.round())
    assert go(shelf.first()) == 1
    assert go(shelf.faults()) == ""
