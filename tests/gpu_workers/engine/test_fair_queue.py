"""The order of a fair queue: shares of work, the start of a tenant that was idle, and withdrawals."""

import random
from collections import Counter
from dataclasses import dataclass

from profile_kit import counted_calls

from gpu_workers.engine.fairness import FairQueue


@dataclass(frozen=True)
class Piece:
    tenant: str
    work: int = 1
    places: int = 1


def filled(*lines: tuple[str, int, int]) -> FairQueue[Piece]:
    """A queue with a line (tenant, entries, work of each)."""
    queue: FairQueue[Piece] = FairQueue()
    for tenant, entries, work in lines:
        for _ in range(entries):
            queue.append(tenant, Piece(tenant, work))
    return queue


def taken(queue: FairQueue[Piece], count: int) -> list[str]:
    return [queue.take().tenant for _ in range(count)]


def test_tenants_take_turns_whoever_came_first() -> None:
    assert taken(filled(("a", 500, 1), ("b", 2, 1)), 5) == ["a", "b", "a", "b", "a"]


def test_a_tenant_that_was_idle_starts_level() -> None:
    """It neither catches up what it did not ask for, nor waits for what others have queued."""
    queue = filled(("a", 100, 1))
    assert taken(queue, 50) == ["a"] * 50
    for _ in range(50):
        queue.append("b", Piece("b"))
    assert Counter(taken(queue, 20)) == {"a": 10, "b": 10}


def test_leaving_and_returning_does_not_renew_a_share() -> None:
    queue = filled(("steady", 100, 1), ("returning", 1, 50))
    assert taken(queue, 2) == ["steady", "returning"]
    queue.append("returning", Piece("returning", 50))
    assert taken(queue, 30) == ["steady"] * 30


def test_an_entry_that_is_withdrawn_is_not_charged() -> None:
    queue = filled(("a", 1, 100), ("b", 10, 1))
    queue.keep(lambda entry: entry.tenant != "a")
    queue.append("a", Piece("a"))
    assert (queue.work, queue.places, queue.tenants) == (11, 11, 2)
    assert queue.held("a") == (1, 1)
    assert Counter(taken(queue, 2)) == {"a": 1, "b": 1}


def test_pieces_go_before_the_rest_of_their_tenant() -> None:
    queue = filled(("a", 1, 7), ("b", 1, 1))
    queue.append_first("a", Piece("a", 2, places=0))
    assert queue.held("a") == (1, 9)
    assert [queue.take().work for _ in range(3)] == [2, 1, 7]
    assert not queue


def test_work_that_was_more_than_estimated_delays_the_next_turn() -> None:
    queue = filled(("a", 10, 1), ("b", 10, 1))
    assert taken(queue, 2) == ["a", "b"]
    queue.charge("a", 5)
    assert taken(queue, 7) == ["b"] * 5 + ["a", "b"]


def test_a_charge_waits_for_a_tenant_that_has_left() -> None:
    queue = filled(("a", 1, 1))
    queue.take()
    queue.charge("a", 3)
    queue.append("c", Piece("c"))
    queue.take()  # nobody waits
    for tenant in "abbbb":
        queue.append(tenant, Piece(tenant))
    assert taken(queue, 5) == ["b"] * 3 + ["a", "b"]
    queue.append("a", Piece("a"))
    assert taken(queue, 1) == ["a"], "nobody else waits"


def test_shares_are_equal_in_real_work() -> None:
    """The bound of the module, with entries of what they turned out to be."""
    chance = random.Random(7)
    queue = filled(("a", 2000, 3), ("b", 2000, 2))
    work: Counter[str] = Counter()
    for _ in range(1500):
        entry = queue.take()
        more = chance.randrange(20) if entry.tenant == "a" else 0
        queue.charge(entry.tenant, more)
        work[entry.tenant] += entry.work + more
        assert abs(work["a"] - work["b"]) <= (3 + 19) + 2


def test_a_tenant_that_is_passed_over_keeps_its_turn() -> None:
    queue = filled(("waiting", 4, 1), ("other", 4, 1))
    for _ in range(3):
        queue.pass_over("waiting")
        assert queue.take().tenant == "other"
        queue.readmit()
    assert taken(queue, 5) == ["waiting"] * 4 + ["other"]


def test_a_tenant_that_is_passed_over_and_leaves_starts_anew() -> None:
    queue = filled(("leaving", 1, 1), ("other", 2, 1))
    queue.pass_over("leaving")
    queue.keep(lambda entry: entry.tenant != "leaving")
    assert taken(queue, 2) == ["other"] * 2
    assert queue.next() is None
    queue.readmit()
    assert queue.next() is None
    queue.append("leaving", Piece("leaving"))
    assert taken(queue, 1) == ["leaving"]


def test_the_next_turn_is_that_of_the_tenant_that_is_due_first_whatever_happened_before() -> None:
    """The order of turns against a search in all lines."""
    chance = random.Random(5)
    queue: FairQueue[Piece] = FairQueue()
    for _ in range(20_000):
        tenant = f"t{chance.randrange(30)}"
        match chance.randrange(8):
            case 0 | 1 | 2:
                queue.append(tenant, Piece(tenant, chance.randrange(1, 9)))
            case 3:
                queue.append_first(tenant, Piece(tenant, places=0))
            case 4 if (first := queue.first(tenant)) is not None:
                queue.take_of(tenant)
                if chance.randrange(2):
                    queue.put_back(tenant, first)
            case 5:
                queue.charge(tenant, chance.randrange(5))
            case 6:
                queue.keep(lambda entry, leaving=tenant: entry.tenant != leaving or chance.randrange(2) > 0)
            case _ if queue:
                queue.take()
        due = min(queue._lines.values(), key=lambda line: line.start, default=None)
        found = queue.next()
        assert (found and found[1]) is (due and due.entries[0])
        assert len(queue._turns) <= 2 * 30 + 64


def test_a_turn_takes_no_longer_however_many_tenants_wait() -> None:
    """Calls of Python while a batch is taken, which do not depend on the machine."""

    def calls(tenants: int) -> int:
        queue = filled(*((f"t{number}", 2, 1) for number in range(tenants)))
        with counted_calls() as counts:
            for _ in range(50):
                queue.take()
        return counts["call"]

    assert calls(2000) <= calls(100) + 50
