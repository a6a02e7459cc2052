"""The text of all metrics, made for all callers together.

It takes 10 to 100 milliseconds, by the number of routes and tenants, and needs no key. So it is made by the thread of
`Preparation`, once for all who wait for it. It then rests for nine times as long, up to a second.
"""

import asyncio
import time

from prometheus_client import generate_latest

from gpu_workers.engine.protocol import GATEWAY
from service.preparation import IN_LOOP_SIZE_MAX, Preparation

_REST = 9
_REST_S_MAX = 1.0


class Scrapes:
    """Used on the event loop only."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._one_at_a_time = asyncio.Lock()
        self._rested_at = 0.0
        self._next: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """The metrics, with values that are no older than the call."""
        if self._next is None:
            self._next = asyncio.create_task(self._made())
        return await asyncio.shield(self._next)

    async def _made(self) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            await asyncio.sleep(self._rested_at - loop.time())
            self._next = None  # who calls from now on gets newer values
            text, seconds = await self._preparation.run(GATEWAY, IN_LOOP_SIZE_MAX + 1, _timed)
            self._rested_at = loop.time() + min(_REST * seconds, _REST_S_MAX)
            return text


def _timed() -> tuple[bytes, float]:
    started = time.perf_counter()
    return generate_latest(), time.perf_counter() - started
