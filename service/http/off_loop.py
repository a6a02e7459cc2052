"""Work that takes longer the larger a request is, kept off the event loop where it would delay other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

# Of a smaller request such work takes about a millisecond, less than what a thread costs under load.
IN_LOOP_MAX = 64 * 1024

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def off_loop(
    size: int, work: Callable[Parameters, Result], *arguments: Parameters.args, **keywords: Parameters.kwargs
) -> Result:
    """The result of `work`, computed in a thread if `size` (bytes, characters, numbers) is large. Raises as `work`."""
    if size <= IN_LOOP_MAX:
        return work(*arguments, **keywords)
    return await asyncio.to_thread(work, *arguments, **keywords)
