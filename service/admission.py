"""What a tenant may use of this gateway at a time: every limit of load.

`gpu_workers/engine/fairness.py` has the words: a resource is asked for a tenant and a cost, and gives a ticket, which a
`with` block gives back. `LoadLimits` and the parts below are the resources of the front end:

| resource | protects | beyond it |
| --- | --- | --- |
| `LoadLimits.requests` | this service from one tenant's requests a minute | 429 `rate-limited` |
| `LoadLimits.failures` | keys from being guessed, by address | 429 `rate-limited` |
| `LoadLimits.samples` | the receivers of alerts | 429 `rate-limited` |
| `LoadLimits.in_flight` | the event loop from many requests of one tenant | waits, then `tenant-limit` |
| `LoadLimits.large_requests` | the event loop from large bodies of one tenant | waits, then `tenant-limit` |
| `LoadLimits.calls` | an upstream from one tenant's open calls (`service/proxy/shares.py`) | `tenant-limit` |
| `BodyMemory` (`service/http/body.py`) | memory, as a body arrives | `queue-full`, `tenant-limit` |
| `ArrayPool` (`gpu_workers/engine/arrays.py`) | shared memory for vectors | `queue-full`, `tenant-limit` |
| `Preparation` (`service/preparation.py`) | the event loop from work on large requests | waits |
| `Isolation` (`service/isolation.py`) | this process from parsers and compilers | waits |
| `Calculations` (`service/accounting`) | processors from calculations | waits; `queue-full`, `tenant-limit` |
| `LedgerReads`, `SampleTurns` (`service/synthesis`) | Redis and the event loop from long answers | waits |

These are not among them, for their own reasons. `TaskQueue` (`gpu_workers/engine`) admits a group of tasks whole or not
at all, by their number and their tokens, and cuts large ones. `JobQueue` (`service/jobs`) orders jobs that other
gateways may take. `SharedLimit` (`core/state`) keeps its counts in Redis. `UpstreamClient` limits the calls of all
tenants together. `service/http` limits connections, heads and the pace of bodies, before there is a tenant.

The ledger limits privacy loss; all of these limit load.
"""

import contextlib
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from core.errors import LedgerUnavailable
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient
from core.state.shared_limit import SharedLimit, Taken
from gpu_workers.engine.fairness import Turns
from service.config.settings import Settings
from service.http.strict import client_network, whole_number
from service.preparation import IN_LOOP_SIZE_MAX
from service.proxy.shares import CallShares, share

SAMPLES_PER_MINUTE = 10  # of an owner of alerts: each is a message to receivers of the owner's choice
CREDIT_S = 1  # what a gateway admits before it has asked Redis, in seconds of the limit
ADDRESSES_MAX = 10_000
SHARED_BELOW = 7 / 8  # of the limit of failures, left at this gateway


class LedgerReads(Turns):
    """The turns of long reads of the ledger: parts of journals are written one after the other."""

    def __init__(self) -> None:
        super().__init__(1)


def is_large(headers: Headers) -> bool:
    """Whether a request has a large body. One of unknown length counts as large."""
    announced = whole_number(headers.get("content-length"))
    return "transfer-encoding" in headers if announced is None else announced > IN_LOOP_SIZE_MAX


# Token buckets


@dataclass
class _Bucket:
    tokens: float
    at: float
    is_exceeded: bool = False


class OwnTokens:
    """Buckets in this process, of `per_minute` tokens each. The bucket that was used least recently is dropped, so that
    there are at most `names_max`."""

    def __init__(
        self, per_minute: int, *, names_max: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._names_max = names_max
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def is_exceeded(self, name: str) -> bool:
        bucket = self._buckets.get(name)
        if bucket is None or not bucket.is_exceeded:
            return False
        return bucket.tokens + (self._clock() - bucket.at) * self._per_minute / 60 < 1

    async def take(self, name: str) -> Taken:
        now, per_second = self._clock(), self._per_minute / 60
        bucket = self._buckets.setdefault(name, _Bucket(tokens=self._per_minute, at=now))
        self._buckets.move_to_end(name)
        if len(self._buckets) > self._names_max:
            self._buckets.popitem(last=False)
        bucket.tokens = min(self._per_minute, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        bucket.is_exceeded = bucket.tokens < 1
        if bucket.is_exceeded:
            return Taken(False, 0.0, (1 - bucket.tokens) / per_second)
        bucket.tokens -= 1
        return Taken(True, bucket.tokens)


Tokens = OwnTokens | SharedLimit  # of this process, or those of all gateways of a ledger


class RateLimit:
    """`take` counts one request of a tenant. `per_minute` 0 disables the limit."""

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
            wait_s = _whole_seconds(taken)
            raise HTTPException(
                429, headers=headers | {"Retry-After": str(wait_s), "RateLimit": f'"tenant";r=0;t={wait_s}'}
            )
        reset_s = math.ceil((self._per_minute - taken.left) * 60 / self._per_minute)
        return headers | {"RateLimit": f'"tenant";r={int(taken.left)};t={reset_s}'}


class FailureLimit:
    """`failed` counts one failed authentication. `per_minute` 0 disables the limit.

    Guarantee: only failures are counted and refused. A valid key is accepted whatever else its address has sent, so
    nobody can lock out a caller behind the same address. An address is in the buckets of all gateways once it has used
    an eighth of the limit at one of them; Redis has an HMAC of it.
    """

    def __init__(
        self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, shared: Tokens | None = None
    ) -> None:
        """`shared`: the buckets of all gateways. While Redis does not answer, those of this process count alone."""
        self._per_minute = per_minute
        self._shared = shared
        self._own = OwnTokens(per_minute, names_max=ADDRESSES_MAX, clock=clock)

    async def failed(self, address: str) -> int | None:
        """Count a failure of `address`. Returns the seconds to wait if it is beyond the limit, else None."""
        if self._per_minute == 0:
            return None
        network = client_network(address)
        taken = await self._own.take(network)
        if taken.admitted and self._shared is not None and taken.left + 1 <= self._per_minute * SHARED_BELOW:
            with contextlib.suppress(LedgerUnavailable):
                taken = await self._shared.take(network)
        return None if taken.admitted else _whole_seconds(taken)


def _whole_seconds(taken: Taken) -> int:
    return max(1, math.ceil(taken.wait_s))


# The limits of one gateway


@dataclass(frozen=True)
class LoadLimits:
    """The limits of load of tenants. Gateways of one ledger share the requests a minute, the failed authentications of
    an address, the samples of alerts and the open calls of language models. Those that protect the memory and the time
    of one process are its own.

    in_flight: requests in work. A request has its place from its authentication until its answer has been sent
        completely, so a client that reads slowly occupies places of its own tenant alone. An answer without an end (the
        events of a job, the lines of a stream of documents) gives its place back when it starts: a tenant with as many
        open streams as places could otherwise do nothing else. The operator's requests, and those without a key, take
        none. Uploads of jobs have their places while they arrive; JOBS_PER_TENANT_MAX limits them to fewer.
    large_requests: requests with a large body in work. Others wait, and their bodies are not read yet. A large body
        costs the time of this process before the engine's queue can refuse it; without this limit, the bodies of one
        tenant with many connections would take all of that time.
    shared: those that give back regularly what they do not use.
    """

    requests: RateLimit
    failures: FailureLimit
    samples: RateLimit
    calls: CallShares
    in_flight: Turns
    large_requests: Turns
    shared: tuple[SharedLimit, ...] = ()


def build_limits(settings: Settings, client: LedgerClient, master_key: MasterKey, *, is_alone: bool) -> LoadLimits:
    """`is_alone`: no other process can serve this ledger, so nothing is shared."""
    requests, failures = settings.rate_limit_per_minute, settings.auth_failures_per_minute
    calls = share(settings.upstream_calls_max, settings.queue_tenant_share)
    shared: list[SharedLimit] = []

    def tokens(key_of: Callable[[str], str], capacity: int, *, per_minute: int, credit: int = 1) -> SharedLimit | None:
        if is_alone:
            return None
        shared.append(SharedLimit(client, key_of, capacity=capacity, per_minute=per_minute, credit=credit))
        return shared[-1]

    def rate(per_minute: int, key_of: Callable[[str], str]) -> SharedLimit | None:
        return tokens(key_of, per_minute, per_minute=per_minute, credit=max(1, per_minute * CREDIT_S // 60))

    def places(each: int, limit: str) -> Turns:
        return Turns(tenant_places=each, wait_s=settings.request_timeout_s, limit=limit)

    def address_key(address: str) -> str:
        return names.address_limit_key(master_key.mac(Purpose.ADDRESS, address.encode()))

    return LoadLimits(
        requests=RateLimit(requests, tokens=rate(requests, lambda tenant: names.shared_limit_key(tenant, "requests"))),
        failures=FailureLimit(failures, shared=rate(failures, address_key)),
        samples=RateLimit(
            SAMPLES_PER_MINUTE,
            tokens=rate(SAMPLES_PER_MINUTE, lambda owner: names.shared_limit_key(owner, "samples")),
        ),
        calls=CallShares(calls, shared=tokens(_calls_key, calls, per_minute=0)),
        in_flight=places(settings.requests_in_flight_per_tenant_max, "requests_in_flight_per_tenant_max"),
        large_requests=places(settings.large_requests_per_tenant_max, "large_requests_per_tenant_max"),
        shared=tuple(shared),
    )


def _calls_key(place: str) -> str:
    tenant, _, upstream = place.partition(" ")
    return names.shared_limit_key(tenant, f"calls:{hashlib.sha256(upstream.encode()).hexdigest()[:16]}")
