"""Long loops on the event loop, in parts between which it does other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

Item = TypeVar("Item")

_PART_S = 0.0005
_one_at_a_time: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def in_parts(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items. After half a millisecond, the event loop has a turn. Of all loops in parts, one goes on in each
    turn: the rounds over tenants run many at a time.

    A thread for such a loop would delay requests for longer: it holds the interpreter for a switch interval each time
    that the event loop has released it for a system call.
    """
    ends = 0.0
    for item in items:
        if time.perf_counter() >= ends:
            await _next_turn()
            ends = time.perf_counter() + _PART_S
        yield item


async def _next_turn() -> None:
    async with _one_at_a_time.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await asyncio.sleep(0)
