"""Who waits for changes of a tenant's budget. One reader serves all of them, whatever their number.

While anybody waits, it reads the number of the last journal entry of each tenant that is waited for, every
`interval_s`. A change is noticed at most that much later. While Redis cannot be reached, nothing changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from core.errors import LedgerError

log = logging.getLogger("privacy_gateway.budget")

INTERVAL_S = 2.0

ReadNumbers = Callable[[Sequence[str]], Awaitable[dict[str, int]]]


class BudgetWatch:
    """Used on the event loop only, without locks."""

    def __init__(self, read: ReadNumbers, *, interval_s: float = INTERVAL_S) -> None:
        """`read`: tenants -> the number of the last journal entry of each."""
        self._read = read
        self._interval_s = interval_s
        self._waiting: dict[str, set[asyncio.Future[int]]] = {}
        self._known: dict[asyncio.Future[int], int | None] = {}
        self._reading: asyncio.Task[None] | None = None

    async def changed(self, tenant: str, known: int | None) -> int:
        """Return the number of the tenant's last journal entry, once it is not `known`."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, set()).add(future)
        self._known[future] = known
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_regularly(at_once=known is None))
        try:
            return await future
        finally:
            del self._known[future]
            self._waiting[tenant].discard(future)
            if not self._waiting[tenant]:
                del self._waiting[tenant]

    async def _read_regularly(self, *, at_once: bool) -> None:
        """Read until nobody waits. The first reader of a page gets its number at once."""
        if not at_once:
            await asyncio.sleep(self._interval_s)
        while self._waiting:
            try:
                numbers = await self._read(sorted(self._waiting))
            except LedgerError as error:
                log.info("budget-not-read", extra={"fields": {"code": error.code}})
            else:
                self._deliver(numbers)
            await asyncio.sleep(self._interval_s)

    def _deliver(self, numbers: dict[str, int]) -> None:
        for tenant, number in numbers.items():
            for future in self._waiting.get(tenant, ()):
                if not future.done() and self._known[future] != number:
                    future.set_result(number)
