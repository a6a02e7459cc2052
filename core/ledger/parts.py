"""Long loops on the event loop, in parts between which it does other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

Item = TypeVar("Item")

_PART_S = 0.0005


async def in_parts(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items. After half a millisecond, the event loop has a turn. All loops in parts share that time: the
    rounds over tenants run many at once.

    A thread for such a loop would delay requests for longer: it holds the interpreter for a switch interval each time
    that the event loop has released it for a system call.
    """
    turns = _turns.setdefault(asyncio.get_running_loop(), _Turns())
    for item in items:
        while not turns.has_time():  # noqa: ASYNC110 - no event: it waits for a turn of the event loop
            await asyncio.sleep(0)
        yield item


class _Turns:
    """The turns of an event loop."""

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


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()
