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
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
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


class _Line(Generic[T]):
    """The entries of one tenant. `start` is the virtual time at which the first of them is due."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.entries: deque[T] = deque()
        self.work = 0
        self.places = 0

    def count(self, entry: T, sign: int) -> None:
        self.work += sign * entry.work
        self.places += sign * entry.places


class FairQueue(Generic[T]):
    """Entries by tenant. Used on one thread, without locks."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line[T]] = {}
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
        """The first entry of each tenant, in the order of their turns."""
        return (line.entries[0] for line in sorted(self._lines.values(), key=lambda line: line.start))

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
        self._lines[tenant].start -= entry.work

    def next(self, passed_over: Collection[str] = ()) -> tuple[str, T]:
        """The tenant and the entry that `take` would return. Raises ValueError for an empty queue.

        `passed_over`: tenants that are left out. They keep their turn, so they are the next ones once they are not.
        """
        names = [name for name in self._lines if name not in passed_over] if passed_over else self._lines
        tenant = min(names, key=lambda name: self._lines[name].start)
        return tenant, self._lines[tenant].entries[0]

    def take(self) -> T:
        """Remove the next entry and charge its work to its tenant. Raises ValueError for an empty queue."""
        return self.take_of(self.next()[0])

    def take_of(self, tenant: str) -> T:
        """As `take`, for the first entry of `tenant`, before its turn. Raises KeyError if it has none."""
        line = self._lines[tenant]
        entry = line.entries[0]
        self._now = max(self._now, line.start)
        line.start += entry.work
        self._remove_first(tenant)
        return entry

    def charge(self, tenant: str, work: int) -> None:
        """Count more work of entries that were taken: the next turn of their tenant is later by so much. A tenant that
        nobody else waits beside has its turn at once."""
        self._charged[tenant] = self._charged.get(tenant, 0) + work
        if tenant in self._lines:
            self._lines[tenant].start += work
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
        if tenant not in self._lines:
            self._lines[tenant] = _Line(max(self._now, self._finished.pop(tenant, 0)))
        return self._lines[tenant]

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
                if waiting.turn.cancelled():
                    self._waiting.remove(tenant, waiting)
                else:  # the turn came in the same moment
                    self.end(tenant)
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
        # without a limit of all places, callers of the others wait for places of their own alone
        own = filter(None, [self._waiting.first(changed)])
        heads = own if self._is_unlimited else self._waiting.heads()
        return next((entry for entry in heads if self._running[entry.tenant] < self._tenant_places), None)
