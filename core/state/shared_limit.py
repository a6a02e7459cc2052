"""A limit of load that all gateways share. Each leases tokens in small batches, so a request rarely waits for Redis.

Guarantee: over any time, the gateways admit at most what one limit admits, and `credit` more for each gateway, which
uses what it has leased only while Redis counts it as held. A caller gets the full limit through any one gateway, or
spread over several, except what others keep. Each second (`return_unused`) a gateway keeps at most as many tokens as
callers took from it in the second before. The ledger limits privacy loss; this limits load.

A gateway leases about what it used since it last asked. The first requests after a pause are admitted on credit, which
the next request to Redis reports. A caller waits only if there is neither, and all that wait share one request. What a
dead gateway held returns after `HELD_S`.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.errors import LedgerError
from core.ledger.tenant_rounds import over_tenants
from core.redis.client import LedgerClient

log = logging.getLogger("privacy_gateway.limits")

HELD_S = 15.0
RETURN_INTERVAL_S = 1.0
REPORT_INTERVAL_S = 5.0
GROWTH_MAX = 8  # of one batch to the next
POOL_WAIT_S = 0.1  # a full pool is not asked again before
_ATTEMPTS = 5  # a request that is on its way does not ask for callers that come later


@dataclass(frozen=True)
class Taken:
    """Whether a token was taken, about how many are left, and when the next one is free if none was taken."""

    admitted: bool
    left: float
    wait_s: float = 0.0


@dataclass
class _Lease:
    """What this gateway has of one limit."""

    tokens: int = 0  # leased and not used
    owed: int = 0  # used without a lease, and not yet reported
    places: int = 0  # of a pool: in use
    waiting: int = 0  # callers
    used: int = 0  # since the last request to Redis
    recent: int = 0  # tokens that callers took since the last `return_unused`
    valid_until: float = 0.0  # Redis counts the tokens as held until then, or longer
    asked_at: float = 0.0  # when a caller last came
    reported_at: float = 0.0  # when Redis last answered
    left: float = 0.0  # in Redis, at the last request
    empty_until: float = 0.0
    asking: asyncio.Task[None] | None = field(default=None, repr=False)


class SharedLimit:
    """Used on one event loop, without locks. `take` raises LedgerUnavailable if it needs Redis and cannot reach it.

    `key_of` returns the key in Redis for a name. `per_minute` 0 is a pool of `capacity` places: a place that was taken
    is in use until `give_back`. `redis_clock` replaces the Redis time in tests.
    """

    def __init__(
        self,
        client: LedgerClient,
        key_of: Callable[[str], str],
        *,
        capacity: int,
        per_minute: int,
        credit: int = 1,
        clock: Callable[[], float] = time.monotonic,
        redis_clock: Callable[[], int] | None = None,
    ) -> None:
        self._client = client
        self._redis_clock = redis_clock
        self._key_of = key_of
        self._capacity = capacity
        self._per_minute = per_minute
        self._credit = min(credit, capacity)
        self._clock = clock
        self._id = secrets.token_hex(8)
        self._leases: dict[str, _Lease] = {}

    async def take(self, name: str) -> Taken:
        """Take one token of the limit `name`, if there is one."""
        lease = self._leases.setdefault(name, _Lease(left=self._capacity))
        lease.used += 1
        lease.asked_at = self._clock()
        if self._take(lease):
            if not lease.tokens:
                self._ask(name, lease)
            return Taken(True, self._left(lease))
        if lease.asked_at < lease.empty_until:
            return Taken(False, 0.0, lease.empty_until - lease.asked_at)
        if not lease.reported_at and lease.owed < self._credit:
            lease.owed += 1
            self._use(lease)
            self._ask(name, lease)
            return Taken(True, self._left(lease))
        for _ in range(_ATTEMPTS):
            lease.waiting += 1
            try:
                await asyncio.shield(self._ask(name, lease))
            finally:
                lease.waiting -= 1
            if self._take(lease):
                return Taken(True, self._left(lease))
            if self._clock() < lease.empty_until:
                break
        return Taken(False, 0.0, max(0.0, lease.empty_until - self._clock()))

    def give_back(self, name: str) -> None:
        """Return a place of a pool."""
        lease = self._leases[name]
        lease.places -= 1
        lease.tokens += 1

    def is_exceeded(self, name: str) -> bool:
        """Whether the next `take` would be refused without asking Redis."""
        lease = self._leases.get(name)
        return lease is not None and not lease.tokens and self._clock() < lease.empty_until

    async def return_regularly(self) -> None:
        """Return what was not used for a second, and report what is in use. Run this until the gateway stops."""
        while True:
            await asyncio.sleep(RETURN_INTERVAL_S)
            await self.return_unused()

    async def return_unused(self) -> None:
        """Return the tokens beyond what callers took in the last second, and free places of pools.

        A caller who comes now and then would else keep what an earlier burst has leased.
        """
        now = self._clock()
        to_report: dict[str, int] = {}
        for name, lease in list(self._leases.items()):
            recent, lease.recent = lease.recent, 0
            if lease.waiting or lease.asking is not None:
                continue
            is_idle = now - lease.asked_at >= RETURN_INTERVAL_S
            back = lease.tokens if is_idle else max(0, lease.tokens - recent)
            if lease.places and not self._per_minute:
                if lease.tokens or lease.owed or now - lease.reported_at >= REPORT_INTERVAL_S:
                    to_report[name] = lease.tokens
            elif back or (is_idle and lease.owed):
                to_report[name] = back
            elif is_idle and now >= lease.empty_until:
                del self._leases[name]
        try:
            await over_tenants(list(to_report), lambda name: self._report(name, to_report[name]))
        except LedgerError:
            return  # what it holds counts no more after HELD_S
        except Exception as error:
            log.warning("limit-not-returned", extra={"fields": {"kind": type(error).__name__}})

    async def _report(self, name: str, back: int) -> int:
        await self._ask(name, self._leases[name], back=back)
        return 1

    def _take(self, lease: _Lease) -> bool:
        self._drop_forgotten(lease)
        if not lease.tokens:
            return False
        lease.tokens -= 1
        lease.recent += 1
        self._use(lease)
        return True

    def _drop_forgotten(self, lease: _Lease) -> None:
        """Drop tokens that Redis may have given to others, because it has not heard of them for `HELD_S`."""
        if self._clock() >= lease.valid_until:
            lease.tokens = 0

    def _use(self, lease: _Lease) -> None:
        if not self._per_minute:
            lease.places += 1

    def _left(self, lease: _Lease) -> float:
        return max(0.0, lease.left - lease.owed) + lease.tokens

    def _ask(self, name: str, lease: _Lease, *, back: int | None = None) -> asyncio.Task[None]:
        """Return the request to Redis that is on its way, or a new one."""
        if lease.asking is None:
            lease.asking = asyncio.create_task(self._exchange(name, lease, back=back))
            lease.asking.add_done_callback(lambda task: self._asked(lease, task))
        return lease.asking

    def _used_in_a_second(self, lease: _Lease) -> int:
        """About how many tokens callers take in a second. A short time counts for several, so that batches grow."""
        passed_s = max(self._clock() - lease.reported_at, 1 / GROWTH_MAX)
        return min(self._capacity, math.ceil(lease.used / passed_s))

    def _asked(self, lease: _Lease, task: asyncio.Task[None]) -> None:
        lease.asking = None
        if not task.cancelled():
            task.exception()  # retrieved; a caller that waits gets it, too

    async def _exchange(self, name: str, lease: _Lease, *, back: int | None) -> None:
        await asyncio.sleep(0)  # callers of the same moment count in what is asked for
        self._drop_forgotten(lease)
        returns, owed, sent_at = back is not None, lease.owed, self._clock()
        back = min(back or 0, lease.tokens)
        lease.tokens -= back
        is_pool = not self._per_minute
        want = 0 if returns else max(1, lease.waiting, 0 if is_pool else self._used_in_a_second(lease))
        held = lease.tokens + (lease.places if is_pool else 0)
        lease.used = 0
        # If the answer is lost, so are the tokens that were returned or leased. They come back by themselves.
        found, _ = await self._client.run(
            "share",
            key=self._key_of(name),
            args={
                "id": self._id,
                "seq": secrets.token_hex(8),
                "capacity": self._capacity,
                "per_minute": self._per_minute,
                "back": back,
                "owed": 0 if is_pool else owed,
                "held": held,
                "want": want,
                "ttl_ms": int(HELD_S * 1000),
                **({"now_ms": self._redis_clock()} if self._redis_clock else {}),
            },
        )
        lease.owed -= owed
        lease.tokens += int(found["leased"])
        lease.left = float(found["left"])
        lease.valid_until = sent_at + HELD_S
        lease.reported_at = now = self._clock()
        if lease.tokens:
            lease.empty_until = 0.0
        elif not (is_pool and returns):
            wait_s = POOL_WAIT_S if is_pool else (1 - lease.left) * 60 / self._per_minute
            lease.empty_until = now + max(0.0, wait_s)
