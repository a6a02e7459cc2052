"""Token buckets: a limit of requests per minute for each tenant, off by default (0), and one of failed authentications
for each address.

One gateway has the buckets in its process. Several gateways share them (`core/state/shared_limit.py`).

Guarantee of the limit of failures: only failures are counted and refused. A valid key is accepted whatever else its
address has sent, so nobody can lock out a caller behind the same address. The table has at most `ADDRESSES_MAX`
entries. An address is in the shared buckets once it has used an eighth of the limit at one gateway; Redis has an HMAC
of it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.exceptions import HTTPException

from core.errors import LedgerUnavailable
from core.state.shared_limit import Taken


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
