"""Random histories whose archiver ends after any step, over a store that fails, loses and damages: no entry is lost."""

import itertools

import pytest
from archive_kit import Shelf, Stop, audited
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from ledger_kit import MASTER_KEY

from core.blobs.local import LocalBlobs
from core.errors import BlobCorrupt, StoreUnavailable
from core.ledger.archive.restore import Restore
from core.ledger.archive.store import ArchiveStore, ledgers_in
from core.redis import names

STEPS = ("written", "read-back", "replaced", "indexed", "trimmed", "chain-trimmed")
UNAVAILABLE, UNANSWERED, DAMAGED = "unavailable", "unanswered", "damaged"
_numbers = itertools.count()


class FaultyBlobs(LocalBlobs):
    """A store whose next calls fail as `plan` says: nothing is stored, the answer is lost, or bytes are."""

    def __init__(self, folder):
        super().__init__(folder)
        self.plan = []

    async def put(self, key, data, *, create_only=False):
        fault = self.plan.pop(0) if self.plan else ""
        if fault == UNAVAILABLE:
            raise StoreUnavailable(reason="unreachable")
        await super().put(key, data[:-1] if fault == DAMAGED else data, create_only=create_only)
        if fault == UNANSWERED:
            raise StoreUnavailable(reason="unreachable")


def machine(go, client, admin, folder):
    class ArchiveMachine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            go(admin.call("FLUSHALL"))
            self.folder = folder / str(next(_numbers))
            self.entries = []
            self.begins_anew()
            go(self.shelf.open())
            self.notes()

        def begins_anew(self):
            """The archiver of another process."""
            self.shelf = Shelf(client, self.folder, blobs=FaultyBlobs(self.folder / "store"), trim_client=admin)
            go(self.shelf.start())

        def notes(self):
            """Remember what is new in the journal, which is still in Redis."""
            found = go(self.shelf.ledger.journal("acme", limit=1000, newest_first=True)).entries
            self.entries += [entry for entry in reversed(found) if entry.seq > len(self.entries)]

        def first(self):
            return go(self.shelf.first())

        @rule(seals=st.integers(1, 4), each=st.integers(1, 2))
        def releases(self, seals, each):
            go(self.shelf.history(seals, each=each))
            self.notes()

        @rule(
            keep=st.sampled_from([1, 6, 1000]),
            faults=st.lists(st.sampled_from(["", UNAVAILABLE, UNANSWERED, DAMAGED]), max_size=3),
        )
        def a_round_over_a_store_that_fails(self, keep, faults):
            before = self.first()
            self.shelf.blobs.plan = list(faults)
            try:
                go(self.shelf.round(keep_entries=keep))
            except StoreUnavailable:
                assert {UNAVAILABLE, UNANSWERED} & set(faults)
            except BlobCorrupt:
                assert faults.count(DAMAGED) > 1
                assert self.first() == before, "nothing is removed without a whole copy"
            self.shelf.blobs.plan = []

        @rule(step=st.sampled_from(STEPS), times=st.integers(1, 2), keep=st.sampled_from([1, 6]))
        def a_round_that_ends_after_a_step(self, step, times, keep):
            reached = []

            def crash(now):
                reached.append(now)
                if reached.count(step) == times:
                    raise Stop

            try:
                go(self.shelf.archiver(crash, keep_entries=keep).run_once())
            except Stop:
                self.begins_anew()

        @precondition(lambda self: self.first() == 1 and self.shelf.objects())
        @rule(which=st.integers(0, 5), is_cut=st.booleans())
        def an_object_is_lost_before_anything_is_removed(self, which, is_cut):
            objects = self.shelf.objects()
            path = objects[which % len(objects)]
            whole = path.read_bytes()
            path.unlink()
            if is_cut:
                path.write_bytes(whole[:-1])
            self.begins_anew()

        @invariant()
        def every_entry_is_found(self):
            found, cursor = [], 0
            while cursor is not None:
                page = go(self.shelf.ledger.journal("acme", cursor=cursor, limit=1000))
                found, cursor = [*found, *page.entries], page.next_cursor
            assert found == self.entries
            assert not client.is_stopped

        def teardown(self):
            go(self.shelf.history(8))
            self.notes()
            self.begins_anew()
            assert go(self.shelf.round(keep_entries=1)).complete
            self.every_entry_is_found()
            assert self.first() > 1
            assert audited(go, self.shelf) == ""
            objects = self.shelf.objects()
            starts = [path.name[:16] for path in objects]
            assert len(set(starts)) == len(starts), "what was replaced is removed"
            go(self.shelf.round(keep_entries=1))
            assert self.shelf.objects() == objects
            go(admin.call("FLUSHALL"))
            [ledger] = go(ledgers_in(self.shelf.blobs))
            store = ArchiveStore(self.shelf.blobs, MASTER_KEY, ledger)
            assert go(Restore(client, MASTER_KEY, store, self.shelf.epoch_file).run()).entries == len(self.entries)
            assert go(admin.call("EXISTS", names.LEDGER_ID_KEY))
            go(admin.call("FLUSHALL"))

    return ArchiveMachine


def test_each_failure_of_a_round(go, client, admin, tmp_path):
    crashes = itertools.product(STEPS, (1, 2), [1])
    stores = [(1, [fault]) for fault in (UNAVAILABLE, UNANSWERED, DAMAGED)] + [(1, [DAMAGED] * 2)]
    losses = itertools.product(range(2), (True, False))
    for rule_name, given in (
        *(("a_round_that_ends_after_a_step", each) for each in crashes),
        *(("a_round_over_a_store_that_fails", each) for each in stores),
        *(("an_object_is_lost_before_anything_is_removed", each) for each in losses),
    ):
        archive = machine(go, client, admin, tmp_path)()
        archive.releases(4, 2)
        archive.a_round_over_a_store_that_fails(1000, [])
        archive.releases(5, 2)
        getattr(archive, rule_name)(*given)
        archive.every_entry_is_found()
        archive.teardown()


@pytest.mark.parametrize("examples", [4, pytest.param(100, marks=pytest.mark.slow("crash"))])
def test_archivers_that_end_and_stores_that_fail_lose_no_entry(go, client, admin, tmp_path, examples):
    run_state_machine_as_test(
        machine(go, client, admin, tmp_path),
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            derandomize=examples < 100,  # the fast tier fails by a change, not by chance
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
