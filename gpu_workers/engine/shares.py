"""Memory that tenants share: what all of them use together is limited, and so is what each of them uses."""

from __future__ import annotations

import threading
from collections import Counter

from core.errors import QueueFull, TenantLimitReached


class MemoryShares:
    """Counts bytes in use by owner. `limit` is the name of the setting that limits one owner.

    Thread-safe: memory may be given back while the garbage collector runs, in any thread.
    """

    def __init__(self, *, bytes_max: int, owner_bytes_max: int, limit: str) -> None:
        self._bytes_max = bytes_max
        self._owner_bytes_max = owner_bytes_max
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
            if self._used[owner] + size > self._owner_bytes_max:
                raise TenantLimitReached(limit=self._limit)
            self._used[owner] += size
            self._total += size

    def give_back(self, owner: str, size: int) -> None:
        with self._lock:
            self._used[owner] -= size
            self._total -= size
            if self._used[owner] == 0:
                del self._used[owner]
