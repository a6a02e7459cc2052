"""A limit of requests per minute for each tenant: a token bucket in this process, off by default (0)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException


@dataclass
class _Bucket:
    tokens: float
    at: float
    is_exceeded: bool = False


class RateLimit:
    """`take` counts one request of a tenant. The ledger limits privacy loss; this limits load."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def is_exceeded(self, tenant: str) -> bool:
        """Whether the last request of the tenant was refused and the next one would be, too."""
        bucket = self._buckets.get(tenant)
        if bucket is None or not bucket.is_exceeded:
            return False
        return bucket.tokens + (self._clock() - bucket.at) * self._per_minute / 60 < 1

    def take(self, tenant: str) -> dict[str, str]:
        """The `RateLimit` headers of the answer; none without a limit.

        Raises:
            HTTPException: 429 with `Retry-After`.
        """
        if self._per_minute == 0:
            return {}
        now = self._clock()
        bucket = self._buckets.setdefault(tenant, _Bucket(tokens=self._per_minute, at=now))
        per_second = self._per_minute / 60
        bucket.tokens = min(self._per_minute, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        reset_s = math.ceil((self._per_minute - bucket.tokens + 1) / per_second)
        headers = {"RateLimit-Policy": f'"tenant";q={self._per_minute};w=60'}
        bucket.is_exceeded = bucket.tokens < 1
        if bucket.is_exceeded:
            wait_s = math.ceil((1 - bucket.tokens) / per_second)
            raise HTTPException(
                429, headers=headers | {"Retry-After": str(wait_s), "RateLimit": f'"tenant";r=0;t={wait_s}'}
            )
        bucket.tokens -= 1
        return headers | {"RateLimit": f'"tenant";r={int(bucket.tokens)};t={reset_s}'}
