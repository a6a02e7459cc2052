"""Admission: whether a tenant may have something that all tenants share now, and what it has of it.

A resource is asked for a tenant and a cost, and gives a `Ticket`, which a `with` block gives back:

* `Turns` are places, such as those of threads or of a tenant's requests in work. A caller waits for one. The cost is
  the estimated work, which decides whose turn is next.
* `MemoryShares` are bytes. The cost is their number, which may grow and shrink while the ticket is held. What exceeds a
  limit is refused.
* `FairQueue` and `tenant_places` are what both of them, and queues of other forms, consist of: the order, and a share.

A refusal is `QueueFull` if all tenants together have too much, and `TenantLimitReached` with the name of the setting if
this tenant has too much.

In a `FairQueue` (start-time fair queueing), each tenant has a line of its own, which is first in, first out. The next
entry is taken from the tenant that has received the least work since it began to wait. A tenant that begins to wait
starts level with the entry that was taken last, so it can neither save up its turn nor be held back by what others have
queued before.

Guarantee: between two moments in which tenants a and b both wait, the work that they receive differs by at most the
largest entry of a plus the largest entry of b. A tenant with one entry therefore waits for at most about one entry of
each other tenant, however many they have queued. An entry that turned out to be more work than was estimated counts as
what it was, once that is known (`FairQueue.charge`).

A share is one of what the other tenants leave free, so that a few tenants at their limits leave something to the next
one.

Source: P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queueing", IEEE/ACM Transactions on Networking 5(5), 1997.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from core.errors import QueueFull, TenantLimitReached


class Entry(Protocol):
    """What can be queued. `work` is at least 1. `places` is what the entry counts towards limits on entries."""

    @property
    def work(self) -> int: ...

    @property
    def places(self) -> int: ...


T = TypeVar("T", bound=Entry)


_Turn = tuple[int, int, str]  # the start and the number of a tenant's line, and the tenant


class _Line(Generic[T]):
    """The entries of one tenant. `start` is the virtual time at which the first of them is due, and `turn` the line's
    part of the order of turns."""

    def __init__(self, start: int, number: int) -> None:
        """`number`: those of lines that are due at the same time decide."""
        self.start = start
        self.number = number
        self.turn: _Turn | None = None  # while it is passed over
        self.entries: deque[T] = deque()
        self.work = 0
        self.places = 0

    def count(self, entry: T, sign: int) -> None:
        self.work += sign * entry.work
        self.places += sign * entry.places


_OUTDATED_MIN = 64  # a smaller heap is not made anew


class FairQueue(Generic[T]):
    """Entries by tenant. Used on one thread, without locks.

    The time of a turn grows with the logarithm of the number of tenants that wait.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line[T]] = {}
        self._turns: list[_Turn] = []  # a heap with the turn of each line, and with outdated turns
        self._numbers = itertools.count()
        self._passed_over: list[tuple[str, _Line[T]]] = []
        self._finished: dict[str, int] = {}  # the virtual time at which a tenant that does not wait has had its share
        self._charged: dict[str, int] = {}  # by `charge`
        self._now = 0
        self.work = 0
        self.places = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __iter__(self) -> Iterator[T]:
        """All entries, in no order across tenants."""
        return (entry for line in self._lines.values() for entry in line.entries)

    @property
    def is_level(self) -> bool:
        """Whether nobody waits and nobody is ahead: an entry that is taken at once then changes no turn."""
        return not (self._lines or self._finished)

    @property
    def tenants(self) -> int:
        """The number of tenants that wait."""
        return len(self._lines)

    def heads(self) -> Iterator[T]:
        """The first entry of each tenant, in no order."""
        return (line.entries[0] for line in self._lines.values())

    def first(self, tenant: str) -> T | None:
        """The first entry of `tenant`."""
        line = self._lines.get(tenant)
        return None if line is None else line.entries[0]

    def held(self, tenant: str) -> tuple[int, int]:
        """The places and the work that `tenant` has in the queue."""
        line = self._lines.get(tenant)
        return (0, 0) if line is None else (line.places, line.work)

    def append(self, tenant: str, entry: T) -> None:
        """Put `entry` at the end of the tenant's line."""
        line = self._line(tenant)
        line.entries.append(entry)
        self._count(line, entry, 1)

    def append_first(self, tenant: str, entry: T) -> None:
        """Put `entry` at the start of the tenant's line."""
        line = self._line(tenant)
        line.entries.appendleft(entry)
        self._count(line, entry, 1)

    def put_back(self, tenant: str, entry: T) -> None:
        """Undo a `take`: put `entry` at the start of the tenant's line, which is not charged for it."""
        self.append_first(tenant, entry)
        self._move(tenant, self._lines[tenant], -entry.work)

    def next(self) -> tuple[str, T] | None:
        """The tenant and the entry that `take` would return; None if nobody waits who is not passed over."""
        while self._turns:
            turn = self._turns[0]
            line = self._lines.get(turn[2])
            if line is not None and line.turn is turn:
                return turn[2], line.entries[0]
            heapq.heappop(self._turns)
        return None

    def pass_over(self, tenant: str) -> None:
        """Leave out a tenant that waits, until `readmit`. It keeps its turn."""
        line = self._lines[tenant]
        line.turn = None
        self._passed_over.append((tenant, line))

    def readmit(self) -> None:
        """Take the turns of all tenants again."""
        passed_over, self._passed_over = self._passed_over, []
        for tenant, line in passed_over:
            if self._lines.get(tenant) is line:
                self._move(tenant, line, 0)

    def take(self) -> T:
        """Remove the next entry and charge its work to its tenant. Raises ValueError for an empty queue."""
        found = self.next()
        if found is None:
            raise ValueError("no entry waits")
        return self.take_of(found[0])

    def take_of(self, tenant: str) -> T:
        """As `take`, for the first entry of `tenant`, before its turn. Raises KeyError if it has none."""
        line = self._lines[tenant]
        entry = line.entries[0]
        self._now = max(self._now, line.start)
        line.start += entry.work
        self._remove_first(tenant)
        if line.entries:
            self._move(tenant, line, 0)
        return entry

    def charge(self, tenant: str, work: int) -> None:
        """Count more work of entries that were taken: the next turn of their tenant is later by so much. A tenant that
        nobody else waits beside has its turn at once."""
        self._charged[tenant] = self._charged.get(tenant, 0) + work
        if tenant in self._lines:
            self._move(tenant, self._lines[tenant], work)
        else:
            self._finished[tenant] = max(self._now, self._finished.get(tenant, 0)) + work

    def drop_of(self, tenant: str) -> None:
        """Remove the first entry of `tenant` without a charge. Raises KeyError if it has none."""
        self._remove_first(tenant)

    def remove(self, tenant: str, entry: T) -> None:
        """Remove this entry of `tenant` without a charge, if it still waits."""
        line = self._lines.get(tenant)
        if line is not None and entry in line.entries:
            line.entries.remove(entry)
            self._count(line, entry, -1)
            self._close_if_empty(tenant, line)

    def keep(self, wanted: Callable[[T], bool]) -> None:
        """Remove the entries that are not `wanted`, without a charge."""
        for tenant, line in list(self._lines.items()):
            kept = deque(entry for entry in line.entries if wanted(entry))
            if len(kept) == len(line.entries):
                continue
            for entry in line.entries:
                self._count(line, entry, -1)
            line.entries = kept
            for entry in kept:
                self._count(line, entry, 1)
            self._close_if_empty(tenant, line)

    def _line(self, tenant: str) -> _Line[T]:
        line = self._lines.get(tenant)
        if line is None:
            self._lines[tenant] = line = _Line(max(self._now, self._finished.pop(tenant, 0)), next(self._numbers))
            self._move(tenant, line, 0)
        return line

    def _move(self, tenant: str, line: _Line[T], work: int) -> None:
        """Make the next turn of a tenant later by so much."""
        line.start += work
        line.turn = (line.start, line.number, tenant)
        heapq.heappush(self._turns, line.turn)
        if len(self._turns) > max(_OUTDATED_MIN, 2 * len(self._lines)):
            self._turns = [each.turn for each in self._lines.values() if each.turn is not None]
            heapq.heapify(self._turns)

    def _remove_first(self, tenant: str) -> None:
        line = self._lines[tenant]
        self._count(line, line.entries.popleft(), -1)
        self._close_if_empty(tenant, line)

    def _close_if_empty(self, tenant: str, line: _Line[T]) -> None:
        if line.entries:
            return
        del self._lines[tenant]
        self._finished[tenant] = line.start
        if not self._lines:  # nobody waits, so nobody is ahead of anybody, but for work that was not estimated
            ahead = {name: self._finished[name] - self._now for name in self._charged if name in self._finished}
            self._charged = {name: min(work, self._charged[name]) for name, work in ahead.items() if work > 0}
            self._finished = {name: self._now + work for name, work in self._charged.items()}

    def _count(self, line: _Line[T], entry: T, sign: int) -> None:
        line.count(entry, sign)
        self.work += sign * entry.work
        self.places += sign * entry.places


_SHARE = 0.5


def tenant_places(places: int, *, others: int, share: float) -> int:
    """How many of `places` one tenant may have: `share` of what the `others` leave free, and one while there is one."""
    return math.ceil(share * (places - others))


def check_places(places: int, *, own: int, total: int, share: float, limit: str) -> None:
    """Raise QueueFull if all `places` are taken, and TenantLimitReached if the tenant has its share of them: `own` of
    the `total` that are taken."""
    if total >= places:
        raise QueueFull
    if own >= tenant_places(places, others=total - own, share=share):
        raise TenantLimitReached(limit=limit)


class Resource(Protocol):
    """What tickets are given back to."""

    def give_back(self, owner: str, size: int) -> None: ...


class Ticket:
    """What `owner` has of a resource: `size` of it, until `close` or the end of a `with` block."""

    def __init__(self, resource: Resource, owner: str, size: int) -> None:
        self.size = size
        self._owner = owner
        self._resource = resource

    def give_back(self, size: int) -> None:
        """Give back a part of it."""
        self._resource.give_back(self._owner, size)
        self.size -= size

    def close(self) -> None:
        """Give back what is left. A second call has no effect."""
        self.give_back(self.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BytesTicket(Ticket):
    """Bytes of `MemoryShares`, none at first."""

    def __init__(self, shares: MemoryShares, owner: str) -> None:
        super().__init__(shares, owner, 0)
        self._shares = shares

    def take(self, size: int) -> None:
        """Have `size` bytes more. Raises as `MemoryShares.take`."""
        self._shares.take(self._owner, size)
        self.size += size


class MemoryShares:
    """Counts bytes in use by owner. `limit` is the name of the setting that limits one owner. If that allows one owner
    everything, there is no other limit of an owner.

    Thread-safe: memory may be given back while the garbage collector runs, in any thread.
    """

    def __init__(self, *, bytes_max: int, owner_bytes_max: int, limit: str) -> None:
        self._bytes_max = bytes_max
        self._owner_bytes_max = owner_bytes_max
        self._share = _SHARE if owner_bytes_max < bytes_max else 1
        self._limit = limit
        self._used: Counter[str] = Counter()
        self._total = 0
        self._lock = threading.RLock()

    def opened(self, owner: str) -> BytesTicket:
        """A ticket for bytes that are counted as they arrive."""
        return BytesTicket(self, owner)

    def take(self, owner: str, size: int) -> None:
        """Raises QueueFull if all together would exceed the limit, TenantLimitReached if the owner would exceed its
        share. Nothing is counted then."""
        with self._lock:
            if self._total + size > self._bytes_max:
                raise QueueFull
            share = tenant_places(self._bytes_max, others=self._total - self._used[owner], share=self._share)
            if self._used[owner] + size > min(self._owner_bytes_max, share):
                raise TenantLimitReached(limit=self._limit)
            self._used[owner] += size
            self._total += size

    def give_back(self, owner: str, size: int) -> None:
        with self._lock:
            self._used[owner] -= size
            self._total -= size
            if self._used[owner] == 0:
                del self._used[owner]


@dataclass(eq=False)
class _Waiting:
    tenant: str
    work: int
    turn: asyncio.Future[None]
    places: int = 1


class Turns:
    """Gives places to waiting callers in the order of a `FairQueue`. Used on the event loop only, without locks.

    places: those of all tenants. By default there is no limit: then no tenant waits for another, and the callers of one
        cost the others no time.
    tenant_places: those that one tenant may have at the same time; by default all.
    callers_max: how many callers may have a place or wait; those of one tenant may be `tenant_share` of what the others
        leave free. By default there is no limit.
    wait_s: the longest time that a caller waits; None without a limit.
    limit: the setting that limits one tenant.
    """

    def __init__(
        self,
        places: float = math.inf,
        *,
        tenant_places: float | None = None,
        callers_max: int | None = None,
        tenant_share: float = 1.0,
        wait_s: float | None = None,
        limit: str = "",
    ) -> None:
        self._places = places
        self._is_unlimited = math.isinf(places)
        self._tenant_places = places if tenant_places is None else tenant_places
        self._callers_max = callers_max
        self._tenant_share = tenant_share
        self._wait_s = wait_s
        self._limit = limit
        self._waiting: FairQueue[_Waiting] = FairQueue()
        self._running: Counter[str] = Counter()
        self._in_use = 0

    @property
    def unfinished(self) -> int:
        """The callers that wait or have a place."""
        return self._waiting.places + self._in_use

    def unfinished_of(self, tenant: str) -> int:
        return self._waiting.held(tenant)[0] + self._running[tenant]

    def is_full(self, tenant: str) -> bool:
        """Whether `wait` would wait."""
        return self._in_use >= self._places or self.unfinished_of(tenant) >= self._tenant_places

    async def wait(self, tenant: str, work: int = 1) -> Ticket:
        """Wait for a place, which the caller has until it closes the ticket. `work`: the estimated size of what
        follows. Raises QueueFull, TenantLimitReached."""
        if self._callers_max is not None:
            own, total = self.unfinished_of(tenant), self.unfinished
            check_places(self._callers_max, own=own, total=total, share=self._tenant_share, limit=self._limit)
        if (self._is_unlimited or self._waiting.is_level) and not self.is_full(tenant):
            self._begin(tenant)
            return Ticket(self, tenant, 1)
        waiting = _Waiting(tenant, work, asyncio.get_running_loop().create_future())
        self._waiting.append(tenant, waiting)
        self._start_next(tenant)
        if not waiting.turn.done():
            try:
                async with asyncio.timeout(self._wait_s):
                    await waiting.turn
            except BaseException as error:
                if waiting.turn.done() and not waiting.turn.cancelled():  # the turn came in the same moment
                    self.end(tenant)
                else:
                    self._waiting.remove(tenant, waiting)
                if isinstance(error, TimeoutError):
                    raise TenantLimitReached(limit=self._limit) from None
                raise
        return Ticket(self, tenant, 1)

    def charge(self, tenant: str, work: int) -> None:
        """Count work that was more than estimated: the tenant's next turn comes later."""
        self._waiting.charge(tenant, work)

    def give_back(self, owner: str, size: int) -> None:
        """Give the places of a ticket to the next callers."""
        for _ in range(size):
            self.end(owner)

    def end(self, tenant: str) -> None:
        """Give a place to the next caller, where no ticket is kept."""
        self._in_use -= 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._start_next(tenant)

    def _start_next(self, changed: str) -> None:
        """Give places to the next callers, after those of the tenant `changed` have."""
        while self._in_use < self._places and (entry := self._next(changed)) is not None:
            self._waiting.take_of(entry.tenant)
            if not entry.turn.cancelled():  # a cancelled caller has not yet removed its entry
                self._begin(entry.tenant)
                entry.turn.set_result(None)

    def _begin(self, tenant: str) -> None:
        self._in_use += 1
        self._running[tenant] += 1

    def _next(self, changed: str) -> _Waiting | None:
        if self._is_unlimited:  # callers of the others wait for places of their own alone
            entry = self._waiting.first(changed)
            return entry if self._running[changed] < self._tenant_places else None
        try:
            while (found := self._waiting.next()) is not None:
                if self._running[found[0]] < self._tenant_places:
                    return found[1]
                self._waiting.pass_over(found[0])
            return None
        finally:
            self._waiting.readmit()
