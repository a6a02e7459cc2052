"""Long loops on the event loop, in parts between which it does other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Item = TypeVar("Item")

_PART_S = 0.0005


async def in_parts(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items. After half a millisecond, the event loop has a turn.

    A thread for such a loop would delay requests for longer: it holds the interpreter for a switch interval each time
    that the event loop has released it for a system call.
    """
    ends = time.perf_counter() + _PART_S
    for item in items:
        yield item
        if time.perf_counter() >= ends:
            await asyncio.sleep(0)
            ends = time.perf_counter() + _PART_S
