"""The load of a worker server or a job runner: what it has in work, and what waits for it, on average over time.

Guarantee: the average is exact for every period, however short the work is, because every change is counted when it
happens. It consists of numbers alone and says nothing of what is in work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """`in_use`: slots or places in use. `waiting`: requests for a slot that wait, over all gateways. Both are averages
    of a period."""

    in_use: float
    waiting: float


class LoadMeter:
    """Used on the event loop only, without locks."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds."""
        self._clock = clock
        self._in_use = 0
        self._waiting = 0
        self._counted_at = clock()
        self._in_use_s = 0.0
        self._waiting_s = 0.0

    def set(self, *, in_use: int, waiting: int = 0) -> None:
        """State the numbers from now on."""
        self._count()
        self._in_use, self._waiting = in_use, waiting

    def reader(self) -> Callable[[], Load]:
        """Return a function whose calls return the load since the call before, the first one since now.

        Readers are independent of each other.
        """
        before = self._sums()

        def read() -> Load:
            nonlocal before
            since, before = before, self._sums()
            seconds = before[0] - since[0]
            if seconds <= 0:
                return Load(self._in_use, self._waiting)
            return Load((before[1] - since[1]) / seconds, (before[2] - since[2]) / seconds)

        return read

    def _count(self) -> None:
        now = self._clock()
        self._in_use_s += self._in_use * (now - self._counted_at)
        self._waiting_s += self._waiting * (now - self._counted_at)
        self._counted_at = now

    def _sums(self) -> tuple[float, float, float]:
        self._count()
        return self._counted_at, self._in_use_s, self._waiting_s
