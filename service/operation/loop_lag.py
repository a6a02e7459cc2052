"""How long the event loop keeps a task waiting that is due: work that blocks it delays every request by as much."""

from __future__ import annotations

import asyncio

from service import metrics

_INTERVAL_S = 0.02


async def measure_loop_lag() -> None:
    """Sleep again and again, and record by how much each sleep was too long. A lag is seen up to 20 ms shorter."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _INTERVAL_S
        await asyncio.sleep(_INTERVAL_S)
        metrics.EVENT_LOOP_LAG.observe(max(0.0, loop.time() - due))
