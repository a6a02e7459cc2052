"""The order of a fair queue: shares of work, the start of a tenant that was idle, and withdrawals."""

import random
import tracemalloc
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from itertools import count

from profile_kit import counted_calls

from gpu_workers.engine.fairness import FairQueue


@dataclass(frozen=True, eq=False)
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


class Searched:
    """The rule of a fair queue in its plainest form, while some tenant always waits: a search in all lines."""

    def __init__(self) -> None:
        self.lines: defaultdict[str, deque[Piece]] = defaultdict(deque)
        self.due: Counter[str] = Counter()  # the virtual time of each tenant's next turn
        self.began: dict[str, int] = {}
        self.numbers = count()
        self.now = 0

    def put(self, tenant: str, entry: Piece, *, first: bool = False) -> None:
        if not self.lines[tenant]:
            self.due[tenant], self.began[tenant] = max(self.now, self.due[tenant]), next(self.numbers)
        (self.lines[tenant].appendleft if first else self.lines[tenant].append)(entry)

    def take_of(self, tenant: str) -> Piece:
        self.now = max(self.now, self.due[tenant])
        entry = self.lines[tenant].popleft()
        self.due[tenant] += entry.work
        return entry

    def charge(self, tenant: str, work: int) -> None:
        self.due[tenant] = (self.due[tenant] if self.lines[tenant] else max(self.now, self.due[tenant])) + work

    def next(self) -> tuple[str, Piece]:
        waiting = (tenant for tenant, line in self.lines.items() if line)
        tenant = min(waiting, key=lambda each: (self.due[each], self.began[each]))
        return tenant, self.lines[tenant][0]


def test_the_next_turn_is_that_of_the_tenant_that_is_due_first_whatever_happened_before() -> None:
    chance = random.Random(5)
    queue: FairQueue[Piece] = FairQueue()
    searched = Searched()
    queue.append("steady", steady := Piece("steady"))
    searched.put("steady", steady)
    for _ in range(20_000):
        tenant = f"t{chance.randrange(30)}"
        match chance.randrange(8):
            case 0 | 1 | 2:
                entry = Piece(tenant, chance.randrange(1, 9))
                queue.append(tenant, entry)
                searched.put(tenant, entry)
            case 3:
                queue.append_first(tenant, entry := Piece(tenant, places=0))
                searched.put(tenant, entry, first=True)
            case 4 if queue.first(tenant) is not None:
                entry = queue.take_of(tenant)
                assert entry is searched.take_of(tenant)
                if chance.randrange(2):
                    queue.put_back(tenant, entry)
                    searched.put(tenant, entry, first=True)
                    searched.charge(tenant, -entry.work)
            case 5:
                queue.charge(tenant, work := chance.randrange(5))
                searched.charge(tenant, work)
            case 6:
                kept = [entry for entry in searched.lines[tenant] if chance.randrange(2)]
                searched.lines[tenant] = deque(kept)
                queue.keep(lambda entry, leaving=tenant, kept=kept: entry.tenant != leaving or entry in kept)
            case _:
                queue.append("steady", steady := Piece("steady"))
                searched.put("steady", steady)
                assert queue.take() is searched.take_of(searched.next()[0])
        assert queue.next() == searched.next()


def test_a_queue_does_not_grow_with_the_turns_that_were_put_off() -> None:
    queue = filled(*((f"t{number}", 1, 1) for number in range(30)))
    tracemalloc.start()
    for turn in range(20_000):
        queue.charge(f"t{turn % 30}", 1)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 100_000


def test_a_turn_takes_no_longer_however_many_tenants_wait() -> None:
    """Calls of Python while a batch is taken, which do not depend on the machine."""

    def calls(tenants: int) -> int:
        queue = filled(*((f"t{number}", 2, 1) for number in range(tenants)))
        with counted_calls() as counts:
            for _ in range(50):
                queue.take()
        return counts["call"]

    assert calls(2000) <= calls(100) + 50
