"""Work on large requests outside the event loop, one at a time, with turns for tenants.

Parsing a body, segmenting a text, turning lists of numbers into an array and writing a large answer take up to hundreds
of milliseconds of Python. On the event loop they would stop every other request. In several threads they would compete
with it for the interpreter, so one thread does them all. After each it rests for as long as it has worked, so that the
event loop has at least half of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from core.errors import LedgerUnavailable, TenantLimitReached
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient
from core.state.shared_limit import SharedLimit, Taken
from gpu_workers.engine.fairness import Turns
from service.config.settings import Settings
from service.http.exchange import Exchange
from service.http.strict import whole_number
from service.proxy.shares import CallShares, share

P = ParamSpec("P")
Result = TypeVar("Result")

IN_LOOP_SIZE_MAX = 64 * 1024  # about a millisecond


class Preparation:
    """Runs functions of one thread. Used on the event loop only, without locks."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="preparation")
        self._turns = Turns(1)

    def close(self) -> None:
        """Finish the running function. All others are cancelled."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(
        self, tenant: str, size: int, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Return the result of `function`. `size`: the characters, bytes or numbers that it reads.

        A small one is called at once. The large ones of all tenants take turns, by their sizes. The function must not
        use anything that belongs to the event loop.
        """
        if size <= IN_LOOP_SIZE_MAX:
            return function(*args, **kwargs)
        await self._turns.wait(tenant, size)
        loop = asyncio.get_running_loop()
        running = self._thread.submit(function, *args, **kwargs)
        started = loop.time()

        def rest() -> None:
            loop.call_later(loop.time() - started, self._turns.end, tenant)

        # The thread is busy until the function has returned, whether or not the caller still waits.
        running.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(rest))
        return await asyncio.wrap_future(running)


# MERGED service.http.rate_limit: Token buckets: a limit of requests per minute for each tenant, off by default (0),
# and one of failed authentications for each address. One gateway has the buckets in its process. Several gateways
# share them (`core/state/shared_limit.py`). Guarantee of the limit of failures: only failures are counted and
# refused. A valid key is accepted whatever else its address has sent, so nobody can lock out a caller behind the
# same address. The table has at most `ADDRESSES_MAX` entries. An address is in the shared buckets once it has used
# an eighth of the limit at one gateway; Redis has an HMAC of it.


class Tokens(Protocol):
    """Token buckets by name."""

    async def take(self, name: str) -> Taken:
        """Take one token, if there is one."""
        ...

    def is_exceeded(self, name: str) -> bool:
        """Whether the last `take` was refused and the next one would be, too."""
        ...


@dataclass
class _Bucket:
    tokens: float
    at: float
    is_exceeded: bool = False


class OwnTokens:
    """Buckets in this process, of `per_minute` tokens each."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def is_exceeded(self, name: str) -> bool:
        bucket = self._buckets.get(name)
        if bucket is None or not bucket.is_exceeded:
            return False
        return bucket.tokens + (self._clock() - bucket.at) * self._per_minute / 60 < 1

    async def take(self, name: str) -> Taken:
        now, per_second = self._clock(), self._per_minute / 60
        bucket = self._buckets.setdefault(name, _Bucket(tokens=self._per_minute, at=now))
        bucket.tokens = min(self._per_minute, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        bucket.is_exceeded = bucket.tokens < 1
        if bucket.is_exceeded:
            return Taken(False, 0.0, (1 - bucket.tokens) / per_second)
        bucket.tokens -= 1
        return Taken(True, bucket.tokens)


class RateLimit:
    """`take` counts one request of a tenant. The ledger limits privacy loss; this limits load."""

    def __init__(
        self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, tokens: Tokens | None = None
    ) -> None:
        """`tokens`: by default those of this process."""
        self._per_minute = per_minute
        self._tokens = tokens or OwnTokens(per_minute, clock=clock)

    def is_exceeded(self, tenant: str) -> bool:
        """Whether the last request of the tenant was refused and the next one would be, too."""
        return self._per_minute > 0 and self._tokens.is_exceeded(tenant)

    async def take(self, tenant: str) -> dict[str, str]:
        """The `RateLimit` headers of the answer; none without a limit.

        Raises:
            HTTPException: 429 with `Retry-After`.
            LedgerUnavailable: the tokens are shared, and Redis does not answer.
        """
        if self._per_minute == 0:
            return {}
        taken = await self._tokens.take(tenant)
        headers = {"RateLimit-Policy": f'"tenant";q={self._per_minute};w=60'}
        if not taken.admitted:
            wait_s = max(1, math.ceil(taken.wait_s))
            raise HTTPException(
                429, headers=headers | {"Retry-After": str(wait_s), "RateLimit": f'"tenant";r=0;t={wait_s}'}
            )
        reset_s = math.ceil((self._per_minute - taken.left) * 60 / self._per_minute)
        return headers | {"RateLimit": f'"tenant";r={int(taken.left)};t={reset_s}'}


ADDRESSES_MAX = 10_000
SHARED_BELOW = 7 / 8  # of the limit, left at this gateway
_IPV6_NETWORK_BITS = 64  # a client can use every address of its network


class FailureLimit:
    """`failed` counts one failure. `per_minute` 0 disables the limit."""

    def __init__(
        self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, shared: Tokens | None = None
    ) -> None:
        """`shared`: the buckets of all gateways. While Redis does not answer, those of this process count alone."""
        self._per_minute = per_minute
        self._shared = shared
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # failures left, and at what time

    async def failed(self, address: str) -> int | None:
        """Count a failure of `address`. Returns the seconds to wait if it is beyond the limit, else None."""
        if self._per_minute == 0:
            return None
        network, now, per_second = _network(address), self._clock(), self._per_minute / 60
        left, at = self._left.pop(network, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * per_second)
        while len(self._left) >= ADDRESSES_MAX:
            self._left.popitem(last=False)
        self._left[network] = (left if left < 1 else left - 1, now)
        if left < 1:
            return math.ceil((1 - left) / per_second)
        if self._shared is not None and left <= self._per_minute * SHARED_BELOW:
            with contextlib.suppress(LedgerUnavailable):
                taken = await self._shared.take(network)
                return None if taken.admitted else max(1, math.ceil(taken.wait_s))
        return None


def _network(address: str) -> str:
    """The address, or of an IPv6 address its network. Anything else is one entry."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((found.packed, _IPV6_NETWORK_BITS), strict=False))


# MERGED service.http.in_flight: Limits how many requests of one tenant are in work at once, so that no tenant takes
# all the time of the event loop. A request takes its place after authentication and before its body is read. It has
# the place until its answer has been sent completely, so a client that reads slowly occupies places of its own
# tenant alone. A request without a free place waits, in the order of arrival. The operator's requests and those
# without a key take no place. An answer without an end (the events of a job, the lines of a stream of documents)
# gives its place back when it starts. Otherwise a tenant with as many open streams as places could do nothing else.
# Uploads of jobs have their places while they arrive: `JOBS_PER_TENANT_MAX` limits them to fewer.


class _Places:
    """The places of one tenant. `users`: requests that have one or wait for one."""

    def __init__(self, places: int) -> None:
        self.free = asyncio.Semaphore(places)
        self.users = 0


class TenantPlaces:
    """Used on the event loop only, without locks. Keeps nothing of a tenant that has no places.

    `limit`: the name of the setting that `per_tenant_max` comes from. `wait_s`: the longest time that a request waits.
    """

    def __init__(self, per_tenant_max: int, *, wait_s: float, limit: str) -> None:
        self._per_tenant_max = per_tenant_max
        self._wait_s = wait_s
        self._limit = limit
        self._tenants: dict[str, _Places] = {}

    def is_full(self, tenant: str) -> bool:
        """Whether `take` would wait."""
        own = self._tenants.get(tenant)
        return own is not None and own.free.locked()

    async def take(self, tenant: str) -> None:
        """Have a place until `give_back`. Raises TenantLimitReached after `wait_s` seconds without one."""
        own = self._tenants.get(tenant)
        if own is None:
            own = self._tenants[tenant] = _Places(self._per_tenant_max)
        own.users += 1
        try:
            if own.free.locked():
                async with asyncio.timeout(self._wait_s):
                    await own.free.acquire()
            else:
                await own.free.acquire()  # returns at once
        except TimeoutError:
            self._leave(tenant, own)
            raise TenantLimitReached(limit=self._limit) from None
        except BaseException:
            self._leave(tenant, own)
            raise

    def give_back(self, tenant: str) -> None:
        """Give the place to the tenant's next request."""
        own = self._tenants[tenant]
        own.free.release()
        self._leave(tenant, own)

    def _leave(self, tenant: str, own: _Places) -> None:
        own.users -= 1
        if own.users == 0:
            del self._tenants[tenant]


class LargeRequests:
    """Limits how many large requests of one tenant are in work at once. Others wait, and their bodies are not read yet.

    A large body costs the gateway's process time before the engine's queue can refuse it. Without this limit, the
    bodies of one tenant with many connections would take all of that time. A request has its place until its answer has
    been sent. Used on the event loop only, without locks.
    """

    def __init__(self, *, per_tenant_max: int, wait_s: float) -> None:
        self._places = TenantPlaces(per_tenant_max, wait_s=wait_s, limit="large_requests_per_tenant_max")

    async def take(self, owner: str, headers: Headers, held: ExitStack) -> None:
        """Have a place until `held` is closed, if the request of `owner` with these headers is large.

        Raises TenantLimitReached if the tenant has no free place for `wait_s` seconds.
        """
        if is_large(headers):
            await self._places.take(owner)
            held.callback(self._places.give_back, owner)


def is_large(headers: Headers) -> bool:
    """A body of unknown length counts as large."""
    announced = whole_number(headers.get("content-length"))
    return "transfer-encoding" in headers if announced is None else announced > IN_LOOP_SIZE_MAX


class InFlight:
    """Used on the event loop only, without locks."""

    def __init__(self, *, per_tenant_max: int, wait_s: float) -> None:
        self._places = TenantPlaces(per_tenant_max, wait_s=wait_s, limit="requests_in_flight_per_tenant_max")

    async def take(self, request: Request, tenant: str) -> None:
        """Have a place until the exchange gives it back.

        Raises TenantLimitReached if the tenant has no free place for `wait_s` seconds, ClientGone if the client leaves
        before. For a request with a large body, which is not read yet, that is noticed when it has its place.
        """
        exchange: Exchange = request.state.exchange
        if self._places.is_full(tenant):
            await exchange.waited(self._take(exchange, tenant), reads=not is_large(request.headers))
        else:
            await self._take(exchange, tenant)

    async def _take(self, exchange: Exchange, tenant: str) -> None:
        await self._places.take(tenant)
        exchange.place.callback(self._places.give_back, tenant)


# MERGED service.limits: The limits of load of a tenant: of this process, or shared by all gateways of a ledger.
# Shared are the requests per minute, the failed authentications of an address, samples of alerts, and the open calls
# of language models. Limits that protect the memory and the time of one process remain those of each gateway.


SAMPLES_PER_MINUTE = 10  # of an owner of alerts: each is a message to receivers of the owner's choice
CREDIT_S = 1  # what a gateway admits before it has asked Redis, in seconds of the limit


@dataclass(frozen=True)
class Limits:
    """The limits of a gateway. `shared` are those that give back regularly what they do not use."""

    requests: RateLimit
    failures: FailureLimit
    samples: RateLimit
    calls: CallShares
    shared: tuple[SharedLimit, ...] = ()


def build_limits(
    settings: Settings,
    client: LedgerClient,
    master_key: MasterKey,
    *,
    is_alone: bool,
    clock: Callable[[], float] = time.monotonic,
) -> Limits:
    """`is_alone`: no other process can serve this ledger, so nothing is shared."""
    requests, failures = settings.rate_limit_per_minute, settings.auth_failures_per_minute
    calls = share(settings.upstream_calls_max, settings.queue_tenant_share)
    if is_alone:
        return Limits(
            RateLimit(requests, clock=clock),
            FailureLimit(failures, clock=clock),
            RateLimit(SAMPLES_PER_MINUTE, clock=clock),
            CallShares(calls),
        )

    def rate(per_minute: int, key_of: Callable[[str], str]) -> SharedLimit:
        credit = max(1, per_minute * CREDIT_S // 60)
        return SharedLimit(client, key_of, capacity=per_minute, per_minute=per_minute, credit=credit, clock=clock)

    shared_requests = rate(requests, lambda tenant: names.shared_limit_key(tenant, "requests"))
    shared_samples = rate(SAMPLES_PER_MINUTE, lambda owner: names.shared_limit_key(owner, "samples"))
    shared_failures = rate(
        failures, lambda address: names.address_limit_key(master_key.mac(Purpose.ADDRESS, address.encode()))
    )
    shared_calls = SharedLimit(client, _calls_key, capacity=calls, per_minute=0, clock=clock)
    return Limits(
        RateLimit(requests, tokens=shared_requests),
        FailureLimit(failures, clock=clock, shared=shared_failures),
        RateLimit(SAMPLES_PER_MINUTE, tokens=shared_samples),
        CallShares(calls, shared=shared_calls),
        (shared_requests, shared_samples, shared_failures, shared_calls),
    )


def _calls_key(place: str) -> str:
    tenant, _, upstream = place.partition(" ")
    return names.shared_limit_key(tenant, f"calls:{hashlib.sha256(upstream.encode()).hexdigest()[:16]}")
