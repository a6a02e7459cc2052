"""Places and memory that tenants share.

A tenant may have a share of what the other tenants leave free, so that a few tenants at their limits leave something to
the next one. Memory is also limited for each tenant.
"""

from __future__ import annotations

import math
import threading
from collections import Counter

from core.errors import QueueFull, TenantLimitReached

_SHARE = 0.5


def tenant_places(places: int, *, others: int, share: float) -> int:
    """How many of `places` one tenant may have: `share` of what the `others` leave free, and one while there is one."""
    return math.ceil(share * (places - others))


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

    def take(self, owner: str, size: int) -> None:
        """Raises QueueFull if all together would exceed the limit, TenantLimitReached if the owner would exceed its
        share. Nothing is counted then."""
        with self._lock:
            if self._total + size > self._bytes_max:
                raise QueueFull
            others = self._total - self._used[owner]
            if self._used[owner] + size > min(self._owner_bytes_max, (self._bytes_max - others) * self._share):
                raise TenantLimitReached(limit=self._limit)
            self._used[owner] += size
            self._total += size

    def give_back(self, owner: str, size: int) -> None:
        with self._lock:
            self._used[owner] -= size
            self._total -= size
            if self._used[owner] == 0:
                del self._used[owner]
