"""Every change of an archived object is found: by its reader, and by the audit."""

from __future__ import annotations

import shutil

import pytest
from archive_kit import Shelf
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_kit import MASTER_KEY

from core.blob_errors import BlobCorrupt, BlobMissing
from core.ledger import names
from core.ledger.archive.objects import decode, encode, range_of
from core.ledger.archive.reader import LedgerArchive
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.keys import MasterKey, Purpose

LEDGER = "ab" * 16
KEY = MASTER_KEY.derive(Purpose.ARCHIVE)


def entries(first, count, marker=b"x"):
    return [
        (
            b"%d-0" % number,
            {b"transition": b"commit", b"release": marker * 32, b"at_ms": b"%d" % (1000 + number), b"amounts": b"[]"},
        )
        for number in range(first, first + count)
    ]


def stored(tenant="acme", first=1, count=600, ledger=LEDGER):
    found = entries(first, count)
    range_ = range_of(tenant, found)
    return range_, encode(range_, found, ledger=ledger, key=KEY, seals=[(1, first, first + count - 1)])


RANGE, OBJECT = stored()


def opened(data, range_=RANGE, ledger=LEDGER, key=KEY):
    return decode(data, blob_key=range_.blob_key(ledger), ledger=ledger, key=key)


def test_an_object_holds_its_entries_in_blocks():
    found = opened(OBJECT)
    found.check()
    assert [raw for batch in found.batches(1, 600) for raw in batch] == entries(1, 600)
    assert [raw for batch in found.batches(249, 252) for raw in batch] == entries(249, 4)
    assert found.newest(200, 300, 60) == entries(241, 60)[::-1]
    assert [found.first_at(at_ms) for at_ms in (0, 1001, 1300, 1600, 1601)] == [1, 1, 300, 600, None]
    assert (found.seal_of(7), found.seal_of(601)) == (1, None)
    assert len(OBJECT) < 600 * 40


@given(st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_changed_or_missing_byte_is_found(data):
    at = data.draw(st.integers(0, len(OBJECT) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "append"]))
    changed = bytearray(OBJECT)
    if kind == "flip":
        changed[at] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del changed[at:]
    else:
        changed.insert(at if kind == "insert" else len(changed), 0)
    with pytest.raises(BlobCorrupt):
        opened(bytes(changed))


def test_an_object_of_another_place_is_refused():
    other_ledger = "cd" * 16
    for range_, ledger, key in (
        (ArchivedRange("other", *RANGE.row[1:]), LEDGER, KEY),
        (RANGE, other_ledger, KEY),
        (RANGE, LEDGER, MasterKey(bytes(32)).derive(Purpose.ARCHIVE)),
        (ArchivedRange("acme", 2, 600, RANGE.digest), LEDGER, KEY),
        (ArchivedRange("acme", 1, 600, "0" * 64), LEDGER, KEY),
    ):
        with pytest.raises(BlobCorrupt):
            opened(OBJECT, range_, ledger, key)
    renamed, data = stored(tenant="other")
    with pytest.raises(BlobCorrupt):
        opened(data)
    assert opened(data, renamed).range == renamed


@pytest.mark.parametrize("wrong", ["missing", "changed", "other numbers"])
def test_an_object_whose_entries_are_not_those_of_its_digest_fails_its_check(wrong):
    found = entries(1, 600)
    if wrong == "missing":
        del found[300]
    elif wrong == "changed":
        found[300] = (found[300][0], {**found[300][1], b"route": b"x"})
    else:
        found[300] = (b"900-0", found[300][1])
    forged = encode(RANGE, found, ledger=LEDGER, key=KEY)  # as only the holder of the master key could write it
    with pytest.raises(BlobCorrupt):
        opened(forged).check()


@pytest.fixture
def shelf(go, client, admin, tmp_path):
    shelf = Shelf(client, tmp_path, trim_client=admin)
    go(shelf.start())
    go(shelf.open())
    go(shelf.open("other"))
    go(shelf.history(10))
    go(shelf.history(8, tenant="other"))
    go(shelf.round())
    go(shelf.history(4))
    go(shelf.round())
    assert go(shelf.faults()) == ""
    return shelf


def audited(go, shelf):
    """What an audit says that reads every object again."""
    return go(shelf.faults(LedgerArchive(shelf.client, MASTER_KEY, shelf.blobs)))


def recorded(go, shelf, stream):
    """The objects that seals record."""

    async def keys():
        ledger = (await shelf.archive.store()).ledger
        return [range_.blob_key(ledger) async for range_ in shelf.archive.ranges(stream)]

    return [shelf.folder / "store" / key for key in go(keys())]


@pytest.mark.parametrize("stream", ["acme", CHAIN])
def test_the_audit_finds_every_damaged_object(go, shelf, stream):
    for path in recorded(go, shelf, stream):
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


def test_the_audit_finds_exchanged_objects(go, shelf, tmp_path):
    first, second = recorded(go, shelf, "acme")[:2]
    (other, *_) = recorded(go, shelf, "other")
    for source, target in ((second, first), (other, first)):
        whole = target.read_bytes()
        shutil.copyfile(source, target)
        assert "not the one that was written" in audited(go, shelf)
        target.write_bytes(whole)
    assert audited(go, shelf) == ""


def test_the_audit_finds_a_changed_index_and_a_changed_entry_that_is_in_both_places(go, shelf, admin):
    key = names.archive_index_key("acme")
    rows = go(admin.call("ZRANGEBYSCORE", key, "-inf", "+inf"))
    go(admin.call("ZREM", key, rows[1]))
    assert "is missing" in audited(go, shelf) or "not the ones that seal" in audited(go, shelf)
    go(admin.call("ZADD", key, int(rows[1].split(b":")[1]), rows[1]))
    assert audited(go, shelf) == ""
    go(admin.call("ZADD", key, 10_000, b"9999:10000:" + b"0" * 64 + b":1:2"))
    assert "index of the archive" in audited(go, shelf)
    go(admin.call("ZREM", key, b"9999:10000:" + b"0" * 64 + b":1:2"))
    go(admin.call("ZADD", key, 1, b"nonsense"))
    assert "cannot be read" in audited(go, shelf)
    go(admin.call("ZREM", key, b"nonsense"))

    go(shelf.round(everything=True))
    assert audited(go, shelf) == ""
    journal = names.journal_key("acme")
    kept = go(admin.call("XRANGE", journal, "-", "+"))
    go(admin.call("DEL", journal))
    for at, (entry_id, fields) in enumerate(kept):
        changed = {**fields, b"route": b"changed"} if at == 1 else fields
        go(admin.call("XADD", journal, entry_id, *(part for pair in changed.items() for part in pair)))
    assert "in Redis are not the archived ones" in audited(go, shelf)
    go(admin.call("FLUSHALL"))


def test_a_page_of_a_damaged_or_missing_object_is_an_error(go, shelf):
    path = recorded(go, shelf, "acme")[0]
    whole = path.read_bytes()
    for data, expected in ((whole[:-1], BlobCorrupt), (None, BlobMissing)):
        path.unlink()
        if data:
            path.write_bytes(data)
        fresh = Shelf(shelf.client, shelf.folder)
        with pytest.raises(expected):
            go(fresh.ledger.journal("acme"))
        assert go(fresh.ledger.journal("acme", newest_first=True, limit=5)).entries
        go(fresh.start())  # neither a start nor a release reads the archive
        go(fresh.release())
    path.write_bytes(whole)


def test_an_audit_without_the_archive_says_so(go, shelf):
    report = go(audit_ledger(shelf.client, MASTER_KEY, shelf.epoch_file))
    assert not report.ok
    assert "no archive was given" in report.faults[0]
