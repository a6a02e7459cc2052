"""Work for many tenants at once: a few tenants share each round trip to Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

TENANTS_AT_ONCE = 16  # far below the client's limit of commands in flight, which requests also use


async def over_tenants(
    tenants: Iterable[str], work: Callable[[str], Awaitable[int]], *, at_once: int = TENANTS_AT_ONCE
) -> int:
    """Do `work` for every tenant, at most `at_once` at a time. Returns the sum of what it returns.

    If the work fails for one tenant, it is still done for the others. The first error is raised at the end.
    """
    waiting = iter(tenants)
    failures: list[Exception] = []
    total = 0

    async def worker() -> None:
        nonlocal total
        for tenant in waiting:
            try:
                done = await work(tenant)
            except Exception as error:
                failures.append(error)
            else:
                total += done

    await asyncio.gather(*(worker() for _ in range(at_once)))
    if failures:
        raise failures[0]
    return total
