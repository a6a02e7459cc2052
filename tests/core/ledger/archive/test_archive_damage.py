"""Objects of the archive that were changed, exchanged or lost: none is used, and the audit finds each."""

import shutil

import pytest
from archive_kit import Shelf, audited
from ledger_kit import MASTER_KEY

from core.errors import BlobCorrupt, BlobMissing
from core.ledger.archive.store import Draft, decode
from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.hash_chain.chain import seal_entry
from core.redis import names

KEY, LEDGER = b"k" * 32, "ab" * 16


@pytest.fixture
def shelf(go, client, admin, tmp_path):
    shelf = Shelf(client, tmp_path, trim_client=admin)
    go(shelf.start())
    go(shelf.open())
    go(shelf.open("other"))
    go(shelf.history(10))
    go(shelf.history(8, tenant="other"))
    go(shelf.round())
    assert go(shelf.faults()) == ""
    return shelf


def archived(go, shelf):
    """The files of the complete objects that Redis depends on."""
    trimmed = int(go(shelf.client.call("GET", names.ARCHIVE_TRIMMED_KEY)))
    return [path for path in shelf.objects() if int(path.name[17:]) <= trimmed]


def draft_of(go, shelf, change=None):
    """An object of three new seals, as an archiver would write it."""
    go(shelf.history(3))
    raw = go(shelf.client.call("XRANGE", names.SEAL_CHAIN_KEY, "-", "+"))[-3:]
    draft = Draft(int(raw[0][0].partition(b"-")[0]))
    for one in raw:
        seal = seal_entry(one, MASTER_KEY)
        for segment in seal.segments:
            if segment.is_new:
                key = names.journal_key(segment.tenant)
                entries = go(shelf.client.call("XRANGE", key, segment.first, segment.last))
                draft.add_entries(segment.tenant, change(entries) if change else entries)
        draft.add_seal(one, seal)
    return draft


def encoded(draft, ledger=LEDGER):
    return draft.encode(ledger=ledger, key=KEY, records={name: {"tenant": {}} for name in draft.tenants})


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries[1:],
        lambda entries: [*entries, entries[-1]],
        lambda entries: [(entries[0][0], {**entries[0][1], b"route": b"changed"}), *entries[1:]],
        lambda entries: entries[::-1],
    ],
    ids=["missing", "repeated", "changed", "exchanged"],
)
def test_entries_that_are_not_those_of_the_seals_are_found(go, shelf, change):
    """As only the holder of the master key could write them."""
    ledger = go(shelf.archive.store()).ledger
    draft = draft_of(go, shelf, change)
    found = decode(encoded(draft, ledger), ledger=ledger, first=draft.first, last=draft.last, key=KEY)
    with pytest.raises(BlobCorrupt):
        found.checked_seals(MASTER_KEY)


def test_any_changed_byte_and_any_other_place_is_refused(go, shelf):
    draft = draft_of(go, shelf)
    data, place = encoded(draft), {"ledger": LEDGER, "first": draft.first, "last": draft.last, "key": KEY}
    assert decode(data, **place).last == draft.last
    for at in (*range(20), len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(BlobCorrupt):
            decode(bytes(changed), **place)
    for length in (0, 3, 15, 16, len(data) - 1):
        with pytest.raises(BlobCorrupt):
            decode(data[:length], **place)
    for other in ({"ledger": "cd" * 16}, {"first": 1}, {"last": draft.last + 1}, {"key": b"x" * 32}):
        with pytest.raises(BlobCorrupt):
            decode(data, **place | other)


def test_the_audit_finds_every_damaged_object(go, shelf):
    paths = archived(go, shelf)
    assert len(paths) > 2
    for path in paths:
        whole = path.read_bytes()
        for damage in ("flip", "cut", "gone"):
            changed = bytearray(whole)
            changed[len(whole) // 2] ^= 16
            if damage == "gone":
                path.unlink()
            else:
                path.write_bytes(bytes(changed) if damage == "flip" else whole[:-1])
            found = audited(go, shelf)
            assert ("is missing" if damage == "gone" else "not the one that was written") in found, (path.name, damage)
            path.write_bytes(whole)
    assert audited(go, shelf) == ""


def test_the_audit_finds_exchanged_objects_and_a_changed_index(go, shelf, admin):
    first, second, *_ = archived(go, shelf)
    whole = first.read_bytes()
    shutil.copyfile(second, first)
    assert "not the one that was written" in audited(go, shelf)
    first.write_bytes(whole)
    for stream in ("acme", names.CHAIN):
        key = names.archive_index_key(stream)
        rows = go(admin.call("ZRANGEBYSCORE", key, "-inf", "+inf"))
        go(admin.call("ZREM", key, rows[0]))
        assert audited(go, shelf)
        go(admin.call("ZADD", key, int(rows[0].split(b":")[1]), rows[0]))
        assert audited(go, shelf) == ""
        go(admin.call("ZADD", key, 1, b"nonsense"))
        assert "cannot be read" in audited(go, shelf)
        go(admin.call("ZREM", key, b"nonsense"))


def test_a_page_of_a_damaged_or_missing_object_is_an_error(go, shelf):
    path = archived(go, shelf)[0]
    whole = path.read_bytes()
    for data, expected in ((whole[:-1], BlobCorrupt), (None, BlobMissing)):
        path.unlink()
        if data:
            path.write_bytes(data)
        fresh = Shelf(shelf.client, shelf.folder)
        with pytest.raises(expected):
            go(fresh.ledger.journal("acme"))
        assert go(fresh.ledger.journal("acme", newest_first=True, limit=2)).entries
        go(fresh.start())  # neither a start nor a release reads the archive
        go(fresh.release())
    path.write_bytes(whole)


def test_an_audit_without_the_archive_finds_that_entries_are_missing(go, shelf):
    report = go(audit_ledger(shelf.client, MASTER_KEY, shelf.epoch_file))
    assert not report.ok
    assert "seals are missing" in report.faults[0]


def test_an_object_that_is_lost_after_the_removal_of_a_part_keeps_the_rest(go, client, admin, tmp_path):
    shelf = Shelf(client, tmp_path / "another", trim_client=admin)
    go(admin.call("FLUSHALL"))
    go(shelf.start())
    go(shelf.open())
    go(shelf.history(10, each=1))
    go(shelf.round(keep_entries=1_000))
    folded = go(client.call("HGET", names.tenant_key("acme"), "folded"))
    go(client.call("HSET", names.tenant_key("acme"), "folded", 2))
    assert not go(shelf.round(keep_entries=1)).complete
    assert go(shelf.first()) == 3
    go(client.call("HSET", names.tenant_key("acme"), "folded", folded))
    shelf.objects()[0].unlink()
    with pytest.raises(BlobMissing):
        go(shelf.round(keep_entries=1))
    assert go(shelf.first()) == 3
    assert not client.is_stopped
