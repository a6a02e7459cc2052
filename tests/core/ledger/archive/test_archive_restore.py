"""A ledger that is rebuilt from its archive alone."""

import shutil

import pytest
from archive_kit import Shelf, Stop, audited
from ledger_kit import MASTER_KEY, charge

from core.amounts import NANO
from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger.archive.restore import Restore
from core.ledger.archive.store import ArchiveStore, ledgers_in
from core.redis import names


@pytest.fixture
def shelf(go, client, admin, tmp_path):
    """Two tenants, one with subjects, in several rounds of the archiver."""
    shelf = Shelf(client, tmp_path, trim_client=admin)
    go(shelf.start())
    go(shelf.open())
    go(shelf.open("clinic", subjects=True))
    for number in range(3):
        go(shelf.history(4))
        go(shelf.history(3, tenant="clinic", subject=f"patient-{number}"))
        go(shelf.round())
    return shelf


def restore_of(go, shelf):
    [ledger] = go(ledgers_in(shelf.blobs))
    return Restore(shelf.client, MASTER_KEY, ArchiveStore(shelf.blobs, MASTER_KEY, ledger), shelf.epoch_file)


def restored(go, shelf, admin):
    go(admin.call("FLUSHALL"))
    again = Shelf(shelf.client, shelf.folder, trim_client=shelf.trim_client)
    go(again.ledger.check())
    return again, go(restore_of(go, shelf).run())


def amounts(states):
    return [(one.account, one.limit_vector, one.committed_vector, one.held_vector, one.divisions) for one in states]


def test_a_ledger_is_rebuilt_from_its_archive(go, shelf, admin):
    accounts = go(shelf.ledger.accounts("acme")) + go(shelf.ledger.accounts("clinic"))
    entries = {tenant: go(shelf.ledger.journal(tenant, limit=1000)).entries for tenant in ("acme", "clinic")}
    seals = go(shelf.ledger.seals_of("acme", range(1, 50)))
    subject = next(line.account for line in entries["clinic"][-1].subjects)
    own = go(shelf.numbers("clinic", subject))
    last = go(shelf.sealer.current_head()).id.n
    again, report = restored(go, shelf, admin)
    assert (report.seal, report.tenants, report.entries, report.spent_holds) == (last, 2, 89, 0)
    with pytest.raises(LedgerNotTrusted, match="older state"):
        go(again.start())
    assert go(again.sealer.accept_restore())
    go(again.start())
    assert audited(go, again) == ""
    assert amounts(go(again.ledger.accounts("acme")) + go(again.ledger.accounts("clinic"))) == amounts(accounts)
    for tenant, before in entries.items():
        assert go(again.ledger.journal(tenant, limit=1000)).entries == before
    assert go(again.ledger.seals_of("acme", range(1, 50))) == seals
    assert go(again.numbers("clinic", subject)) == own
    go(again.fold())
    assert go(again.ledger.first_entry_at("acme", 0)) == 1

    go(again.history(8))  # it goes on
    go(again.history(2, tenant="clinic", subject="patient-9"))
    assert go(again.round()).complete
    assert audited(go, again) == ""
    assert go(again.numbers()) == list(range(1, 49 + 32 + 1))

    _, report = restored(go, again, admin)  # and is lost a second time
    assert report.entries == 89 + 32 + 8 + 1


def test_open_holds_are_spent_and_what_was_not_copied_is_lost(go, shelf, admin):
    go(shelf.ledger.reserve("acme", [charge(5)], words={"purpose": "search index"}))
    go(shelf.ledger.reserve("clinic", [charge(7, subject="patient-1")]))
    go(shelf.sealer.seal())
    go(shelf.round())
    before = go(shelf.ledger.account("clinic", "clinic/sentence"))
    copied = len(go(shelf.ledger.journal("acme", limit=1000)).entries)
    go(shelf.history(2))
    again, report = restored(go, shelf, admin)
    assert (report.spent_holds, report.lost_subject_holds) == (2, 1)
    assert go(again.sealer.accept_restore())
    go(again.start())
    assert audited(go, again) == ""
    assert go(again.numbers()) == list(range(1, copied + 2))
    commits = [one for one in go(again.ledger.journal("acme", limit=1000)).entries if one.transition == "commit"]
    account = go(again.ledger.account("acme", "acme/sentence"))
    assert (account.committed.epsilon_nano, account.reserved.epsilon_nano) == ((5 + len(commits)) * NANO, 0)
    after = go(again.ledger.account("clinic", "clinic/sentence"))
    assert after.committed.epsilon_nano == before.committed.epsilon_nano + 7 * NANO
    last = go(again.ledger.journal("acme", newest_first=True, limit=1)).entries[0]
    assert (last.transition, last.reason, last.purpose) == ("expire", "restored", "search index")


def test_a_restore_needs_an_empty_redis_and_a_whole_archive(go, shelf, admin):
    with pytest.raises(LedgerUnavailable, match="empty Redis"):
        go(restore_of(go, shelf).run())
    first, second, *_ = shelf.objects()
    whole = second.read_bytes()
    for damage in ("cut", "exchanged", "gone"):
        if damage == "cut":
            second.write_bytes(whole[:-1])
        elif damage == "exchanged":
            shutil.copyfile(first, second)
        else:
            second.unlink()
        go(admin.call("FLUSHALL"))
        with pytest.raises(LedgerNotTrusted, match=r"The archive has a fault"):
            go(restore_of(go, shelf).run())
        assert not go(admin.call("EXISTS", names.LEDGER_ID_KEY))
        second.write_bytes(whole)
    go(admin.call("FLUSHALL"))
    shelf.epoch_file.write_text('{"ledger": "' + "0" * 32 + '", "epoch": 1, "mac": ""}')
    with pytest.raises(LedgerUnavailable, match="another ledger"):
        go(restore_of(go, shelf).run())
    for path in shelf.objects():
        path.unlink()
    go(admin.call("FLUSHALL"))


def test_objects_that_a_crash_left_behind_are_no_fault(go, shelf, admin):
    """An object with fewer seals, and one of a history that an older copy of Redis has replaced."""
    *_, newest = shelf.objects()
    smaller = newest.read_bytes()
    go(shelf.history(1))
    go(shelf.round())
    newest.write_bytes(smaller)
    entries = go(shelf.ledger.journal("acme", limit=1000)).entries
    again, _ = restored(go, shelf, admin)
    assert go(again.sealer.accept_restore())
    go(again.start())
    assert go(again.ledger.journal("acme", limit=1000)).entries == entries
    assert audited(go, again) == ""


def test_what_an_interrupted_restore_leaves_is_not_served(go, shelf, admin, monkeypatch):
    async def stop(self, ranges):
        await self._flush()
        raise Stop

    go(admin.call("FLUSHALL"))
    shelf.epoch_file.unlink()  # lost with the disk
    with monkeypatch.context() as patch:
        patch.setattr(Restore, "_write_chain", stop)
        with pytest.raises(Stop):
            go(restore_of(go, shelf).run())
    assert go(admin.call("EXISTS", names.TENANTS_KEY))
    with pytest.raises(LedgerNotTrusted, match="no ledger"):
        go(Shelf(shelf.client, shelf.folder).start())
    again, report = restored(go, shelf, admin)
    assert report.tenants == 2
    assert go(again.sealer.accept_restore())
    go(again.start())
    assert audited(go, again) == ""
