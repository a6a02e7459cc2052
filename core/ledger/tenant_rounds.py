"""Rounds of work over many tenants, at little cost for the tenants without news.

`TenantActivity` reads which tenants have new journal entries, at one command for hundreds of tenants without any.
Guarantee: `positions` returns every listed tenant, with all entries that were durable before the call. An idle tenant
costs a share of one XREAD over many journals. The record of a tenant itself is read when its journal has news, while it
is active, and at the latest every `check_interval_s`: a record that was set back is noticed then.

`OverdueHolds` finds holds whose deadline has passed. Guarantee: each of them is given to `expire`, however often a
round fails or is repeated. A hold begins with a journal entry, so a tenant without new entries has no deadline that
this process does not have. A tenant whose journal has not changed and whose deadlines lie ahead costs nothing.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from core.errors import HoldNotOpen
from core.redis import names
from core.redis.client import LedgerClient

TENANTS_AT_ONCE = 16  # far below the client's limit of commands in flight, which requests also use


async def over_tenants(
    tenants: Iterable[str], work: Callable[[str], Awaitable[int]], *, at_once: int = TENANTS_AT_ONCE
) -> int:
    """Do `work` for every tenant, at most `at_once` at a time. Returns the sum of what it returns.

    If the work fails for one tenant, it is still done for the others. The first error is raised at the end.
    """
    waiting = iter(tenants)
    failures: list[Exception] = []
    total = 0

    async def worker() -> None:
        nonlocal total
        for tenant in waiting:
            try:
                done = await work(tenant)
            except Exception as error:
                failures.append(error)
            else:
                total += done

    await asyncio.gather(*(worker() for _ in range(at_once)))
    if failures:
        raise failures[0]
    return total


TENANT_BATCH = 250
# An active tenant is read at each call until this many calls have found nothing new.
_QUIET_CALLS = 3
CHECK_INTERVAL_S = 60.0


class TenantPosition(NamedTuple):
    """The last entry of a tenant's journal, and how often a current limit was set, which has no entry."""

    seq: int = 0
    limit_changes: int = 0


class TenantActivity:
    """Follows the journals of all tenants for one process. `positions` raises LedgerUnavailable."""

    def __init__(
        self,
        client: LedgerClient,
        *,
        check_interval_s: float = CHECK_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._check_interval_s = check_interval_s
        self._clock = clock
        self._known: dict[str, TenantPosition] = {}
        self._quiet: dict[str, int] = {}  # calls since an active tenant had news
        self._read_order: dict[str, None] = {}  # by the last read of the record, the earliest first
        self._called_at = clock()
        self._looking = asyncio.Lock()

    async def positions(self) -> Mapping[str, TenantPosition]:
        """Return the position of every tenant in the list; zeros for the name of an interrupted `open_tenant`."""
        async with self._looking:
            listed = {name.decode() for name in await self._client.call("SMEMBERS", names.TENANTS_KEY)}
            for tenant in self._known.keys() - listed:
                self._forget(tenant)
            to_read = {tenant for tenant in listed if tenant not in self._known or tenant in self._quiet}
            to_read |= self._due_for_check()
            to_read |= await self._with_news(sorted(listed - to_read))
            await self._read(sorted(to_read))
            return dict(self._known)

    def _due_for_check(self) -> set[str]:
        """Return a part of the tenants, so that all of them are read in `check_interval_s`, evenly distributed."""
        now = self._clock()
        share = min(1.0, (now - self._called_at) / self._check_interval_s)
        self._called_at = now
        return set(islice(self._read_order, math.ceil(share * len(self._read_order))))

    async def _with_news(self, idle: Sequence[str]) -> set[str]:
        """Return the tenants whose journal has an entry after the last known one."""
        found: set[str] = set()
        for start in range(0, len(idle), TENANT_BATCH):
            batch = idle[start : start + TENANT_BATCH]
            keys = [names.journal_key(tenant) for tenant in batch]
            after = [f"{self._known[tenant].seq}-0" for tenant in batch]
            reply = await self._client.call("XREAD", "COUNT", 1, "STREAMS", *keys, *after)
            tenants = dict(zip(keys, batch, strict=True))
            found.update(tenants[key.decode()] for key in _streams(reply))
        return found

    async def _read(self, tenants: Sequence[str]) -> None:
        for start in range(0, len(tenants), TENANT_BATCH):
            batch = tenants[start : start + TENANT_BATCH]
            replies = await self._client.call_many(
                [("HMGET", names.tenant_key(tenant), "seq", "limit_changes") for tenant in batch]
            )
            for tenant, (seq, limit_changes) in zip(batch, replies, strict=True):
                position = TenantPosition(int(seq or 0), int(limit_changes or 0))
                if position != self._known.get(tenant):
                    self._quiet[tenant] = 0
                elif tenant in self._quiet:
                    self._quiet[tenant] += 1
                    if self._quiet[tenant] >= _QUIET_CALLS:
                        del self._quiet[tenant]
                self._known[tenant] = position
                self._read_order.pop(tenant, None)
                self._read_order[tenant] = None

    def _forget(self, tenant: str) -> None:
        for one in (self._known, self._quiet, self._read_order):
            one.pop(tenant, None)


class Done:
    """How far the work for each tenant has come, so that a round takes only tenants with something new."""

    def __init__(self) -> None:
        self._positions: dict[str, TenantPosition] = {}

    def pending(self, positions: Mapping[str, TenantPosition]) -> list[str]:
        """Return the tenants that have changed since their work was done, sorted."""
        return sorted(tenant for tenant, position in positions.items() if self._positions.get(tenant) != position)

    def note(self, tenant: str, position: TenantPosition) -> None:
        """The work of `tenant` is done up to `position`, which was read before the work began."""
        self._positions[tenant] = position

    def keep(self, tenants: Iterable[str]) -> None:
        """Forget all but these tenants."""
        for tenant in self._positions.keys() - set(tenants):
            del self._positions[tenant]


def _streams(reply: Any) -> list[bytes]:
    """Return the names of the streams in a reply of XREAD."""
    return [pair[0] for pair in reply or ()]


SWEEP_BATCH = 256

Expire = Callable[[str, str], Awaitable[object]]  # tenant and release


class OverdueHolds:
    """The holds of all tenants by deadline, for one process. Methods raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient, expire: Expire) -> None:
        self._client = client
        self._expire = expire
        self._done = Done()
        self._next_ms: dict[str, float] = {}  # the first deadline of each tenant that has an open hold

    async def expire_all(self, positions: Mapping[str, TenantPosition], now_ms: int) -> int:
        """Expire every hold that is overdue at `now_ms`. Returns their number."""
        changed = set(self._done.pending(positions))
        due = {tenant for tenant, deadline in self._next_ms.items() if deadline <= now_ms and tenant in positions}

        async def work(tenant: str) -> int:
            expired = await self.expire_of(tenant, now_ms)
            first = await self._client.call(
                "ZRANGEBYSCORE", names.overdue_key(tenant), "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1
            )
            self._next_ms.pop(tenant, None)
            if first:
                self._next_ms[tenant] = float(first[1])
            self._done.note(tenant, positions[tenant])
            return expired

        return await over_tenants(sorted(changed | due), work)

    async def expire_of(self, tenant: str, now_ms: int) -> int:
        """Expire every overdue hold of one tenant."""
        expired = 0
        while True:
            overdue = await self._client.call(
                "ZRANGEBYSCORE", names.overdue_key(tenant), 0, now_ms, "LIMIT", 0, SWEEP_BATCH
            )
            before = expired
            for release_id in overdue:
                try:
                    await self._expire(tenant, release_id.decode())
                except HoldNotOpen:
                    continue  # settled in the meantime, which also removed it from this list
                expired += 1
            if len(overdue) < SWEEP_BATCH or expired == before:
                return expired


Item = TypeVar("Item")

_PART_S = 0.0005


async def in_parts(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items. After half a millisecond, the event loop has a turn. All loops in parts share that time: the
    rounds over tenants run many at once.

    A thread for such a loop would delay requests for longer: it holds the interpreter for a switch interval each time
    that the event loop has released it for a system call.
    """
    loop_time = _loop_times.setdefault(asyncio.get_running_loop(), _LoopTime())
    for item in items:
        while not loop_time.has_time():  # noqa: ASYNC110 - no event: it waits for a turn of the event loop
            await asyncio.sleep(0)
        yield item


class _LoopTime:
    """The time that rounds over tenants may take of one turn of an event loop."""

    def __init__(self) -> None:
        self._ends: float | None = None  # of the time for parts in this turn; None before the first

    def has_time(self) -> bool:
        """Whether this turn has time for another item. It has for one."""
        now = time.perf_counter()
        if self._ends is None:
            self._ends = now + _PART_S
            asyncio.get_running_loop().call_soon(self._next)
            return True
        return now < self._ends

    def _next(self) -> None:
        self._ends = None


_loop_times: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopTime] = WeakKeyDictionary()
