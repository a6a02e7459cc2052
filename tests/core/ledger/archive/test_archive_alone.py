"""The archive without Redis: its audit, and the ledger that is rebuilt from it."""

from __future__ import annotations

import shutil

import pytest
from archive_kit import Shelf, Stop
from ledger_kit import MASTER_KEY, charge

from core.amounts import NANO
from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger import names
from core.ledger.archive.archive_audit import audit_archive
from core.ledger.archive.restore import Restore
from core.ledger.archive.store import ArchiveStore, ledgers_in
from core.ledger.hash_chain.archived import CHAIN


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


def store_of(go, shelf):
    [ledger] = go(ledgers_in(shelf.blobs))
    return ArchiveStore(shelf.blobs, MASTER_KEY, ledger)


def audited(go, shelf):
    return go(audit_archive(store_of(go, shelf), MASTER_KEY))


def faults(go, shelf):
    found = audited(go, shelf).audit
    assert found.ok == (not found.faults and all(tenant.ok for tenant in found.tenants))
    return [*found.faults, *(fault for tenant in found.tenants for fault in tenant.faults)]


def test_the_archive_alone_is_audited(go, shelf, admin):
    go(shelf.round(everything=True))
    seal = go(shelf.sealer.current_head()).id.n
    go(admin.call("FLUSHALL"))
    found = audited(go, shelf)
    assert found.audit.ok
    assert found.later == {}
    assert found.audit.seals == seal, "the record of the last round is in the archive, too"
    assert {tenant.tenant: tenant.entries for tenant in found.audit.tenants} == {"acme": 49, "clinic": 40}


def test_what_only_redis_has_is_counted(go, shelf, admin):
    found = audited(go, shelf)
    assert found.audit.ok
    assert all(0 < entries < 20 for entries in found.later.values())
    assert set(found.later) == {"acme", "clinic"}


@pytest.mark.parametrize("part", ["journal/acme", "chain"])
def test_every_damaged_object_is_found(go, shelf, part):
    go(shelf.round(everything=True))

    async def recorded():
        streams = (CHAIN, "acme")
        return {range_.digest for one in streams async for range_ in shelf.archive.ranges(one)}

    digests = go(recorded())
    for path in shelf.objects(part):
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[-1] ^= 1
        path.write_bytes(bytes(changed))
        assert faults(go, shelf), path.name
        path.unlink()
        assert faults(go, shelf) or path.name[-64:] not in digests, path.name  # a copy of the newest seals
        path.write_bytes(whole)
    assert faults(go, shelf) == []


def test_objects_of_another_tenant_or_ledger_are_not_used(go, shelf):
    go(shelf.round(everything=True))
    first, second = shelf.objects("journal/acme")[:2]
    other = shelf.objects("journal/clinic")[0]
    whole = first.read_bytes()
    for source in (second, other):
        shutil.copyfile(source, first)
        assert any("not the one that was written" in fault for fault in faults(go, shelf))
    first.write_bytes(whole)
    copied = shelf.folder / "store/archive" / ("0" * 32)
    shutil.copytree(next((shelf.folder / "store/archive").iterdir()), copied)
    assert sorted(go(ledgers_in(shelf.blobs))) == sorted(
        path.name for path in (shelf.folder / "store/archive").iterdir()
    )
    assert not go(audit_archive(ArchiveStore(shelf.blobs, MASTER_KEY, "0" * 32), MASTER_KEY)).audit.ok


def restored(go, shelf, admin):
    store = store_of(go, shelf)
    go(admin.call("FLUSHALL"))
    again = Shelf(shelf.client, shelf.folder, trim_client=shelf.trim_client)
    go(again.ledger.check())
    report = go(Restore(shelf.client, MASTER_KEY, store, shelf.epoch_file).run())
    return again, report


def test_a_ledger_is_rebuilt_from_its_archive(go, shelf, admin):
    go(shelf.round(everything=True))
    accounts = go(shelf.ledger.accounts("acme")) + go(shelf.ledger.accounts("clinic"))
    entries = {tenant: go(shelf.ledger.journal(tenant, limit=1000)).entries for tenant in ("acme", "clinic")}
    subject = next(line.account for line in entries["clinic"][-1].subjects)
    own = go(shelf.numbers("clinic", subject))
    again, report = restored(go, shelf, admin)
    assert (report.tenants, report.entries, report.spent_holds, report.later) == (2, 89, 0, {})
    with pytest.raises(LedgerNotTrusted, match="older state"):
        go(again.start())
    assert go(again.sealer.accept_restore())
    go(again.start())
    assert go(again.faults()) == ""

    def amounts(states):
        return [(one.account, one.limit_vector, one.committed_vector, one.held_vector, one.divisions) for one in states]

    assert amounts(go(again.ledger.accounts("acme")) + go(again.ledger.accounts("clinic"))) == amounts(accounts)
    for tenant, before in entries.items():
        assert go(again.ledger.journal(tenant, limit=1000)).entries == before
    assert go(again.numbers("clinic", subject)) == own
    go(again.fold())
    assert go(again.ledger.first_entry_at("acme", 0)) == 1

    go(again.history(8))  # it goes on
    go(again.history(2, tenant="clinic", subject="patient-9"))
    assert go(again.round()).complete
    assert go(again.faults()) == ""
    assert go(again.numbers()) == list(range(1, 49 + 32 + 1))
    assert audited(go, again).audit.ok


def test_entries_after_the_last_complete_seal_count_and_open_holds_are_spent(go, shelf, admin):
    go(shelf.round(everything=True))
    go(shelf.ledger.reserve("acme", [charge(5)]))
    go(shelf.ledger.reserve("clinic", [charge(5, subject="patient-1")]))
    go(shelf.history(8))
    go(shelf.history(1, tenant="clinic", subject="patient-0"))
    go(shelf.round())  # archives most of acme, and nothing of the new entries of clinic
    archived = go(shelf.sealer.current_head()).tenants["acme"].archived
    assert archived > 49
    again, report = restored(go, shelf, admin)
    assert report.entries == archived + 40
    assert (report.spent_holds, report.lost_subject_holds) == (1, 0)
    assert set(report.later) == {"acme", "clinic"}
    assert go(again.sealer.accept_restore())
    go(again.start())
    assert go(again.faults()) == ""
    account = go(again.ledger.account("acme", "acme/sentence"))
    commits = [one for one in go(again.ledger.journal("acme", limit=1000)).entries if one.transition == "commit"]
    assert account.committed.epsilon_nano == (5 + len(commits)) * NANO
    assert account.reserved.epsilon_nano == 0
    last = go(again.ledger.journal("acme", newest_first=True, limit=1)).entries[0]
    assert (last.transition, last.reason) == ("expire", "restored")
    go(again.history(8))
    go(again.round())
    assert go(again.faults()) == ""
    go(again.history(8))
    go(again.round())
    assert go(again.faults()) == ""
    assert audited(go, again).audit.ok


def test_a_hold_on_a_subject_is_spent_from_the_quota(go, shelf, admin):
    go(shelf.ledger.reserve("clinic", [charge(5, subject="patient-1")]))
    go(shelf.sealer.seal())
    go(shelf.round(everything=True))
    before = go(shelf.ledger.account("clinic", "clinic/sentence"))
    again, report = restored(go, shelf, admin)
    assert (report.spent_holds, report.lost_subject_holds) == (1, 1)
    go(again.sealer.accept_restore())
    go(again.start())
    assert go(again.faults()) == ""
    after = go(again.ledger.account("clinic", "clinic/sentence"))
    assert after.committed.epsilon_nano == before.committed.epsilon_nano + before.reserved.epsilon_nano


def test_a_restore_needs_an_empty_redis_and_a_whole_archive(go, shelf, admin):
    go(shelf.round(everything=True))
    store = store_of(go, shelf)
    with pytest.raises(LedgerUnavailable, match="empty Redis"):
        go(Restore(shelf.client, MASTER_KEY, store, shelf.epoch_file).run())
    go(admin.call("FLUSHALL"))
    path = shelf.objects("journal/acme")[1]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(LedgerNotTrusted, match="not the one that was written"):
        go(Restore(shelf.client, MASTER_KEY, store_of(go, shelf), shelf.epoch_file).run())
    assert not go(admin.call("EXISTS", names.LEDGER_ID_KEY))
    path.write_bytes(whole)
    go(admin.call("FLUSHALL"))
    shelf.epoch_file.write_text('{"ledger": "' + "0" * 32 + '", "epoch": 1, "mac": ""}')
    with pytest.raises(LedgerUnavailable, match="another ledger"):
        go(Restore(shelf.client, MASTER_KEY, store, shelf.epoch_file).run())
    go(admin.call("FLUSHALL"))


def test_objects_that_a_crash_left_behind_do_not_disturb_the_archive(go, shelf, admin):
    go(shelf.history(6))

    def crash(step):
        if step == "chain-end-written":
            raise Stop

    with pytest.raises(Stop):
        go(shelf.archiver(crash).run_once())
    go(shelf.history(6))
    go(shelf.round())
    firsts = [path.name[:16] for path in shelf.objects("chain")]
    assert len(set(firsts)) < len(firsts), "copies of the newest seals overlap"
    assert audited(go, shelf).audit.ok


def test_what_an_interrupted_restore_leaves_is_not_served(go, shelf, admin):
    class Interrupted(Restore):
        async def _write_chain(self, last):
            await self._flush()
            raise Stop

    go(shelf.round(everything=True))
    store = store_of(go, shelf)
    go(admin.call("FLUSHALL"))
    shelf.epoch_file.unlink()  # lost with the disk
    with pytest.raises(Stop):
        go(Interrupted(shelf.client, MASTER_KEY, store, shelf.epoch_file).run())
    assert go(admin.call("EXISTS", names.TENANTS_KEY))
    with pytest.raises(LedgerNotTrusted, match="no ledger"):
        go(Shelf(shelf.client, shelf.folder).start())
    again, report = restored(go, shelf, admin)
    assert report.tenants == 2
    assert go(again.sealer.accept_restore())
    go(again.start())
    assert go(again.faults()) == ""
