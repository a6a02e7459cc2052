"""Places of a tenant: given in the order of arrival, and given on by who leaves."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from gpu_workers.engine.fairness import Turns


def test_places_are_given_in_the_order_of_arrival_past_those_who_left() -> None:
    async def main() -> None:
        places = Turns(tenant_places=1, wait_s=60, limit="a_setting")
        order: list[int] = []

        async def use(number: int) -> None:
            await places.wait("tenant")
            order.append(number)
            places.end("tenant")

        await places.wait("tenant")
        assert places.is_full("tenant")
        assert not places.is_full("another")
        waiting = [asyncio.create_task(use(number)) for number in range(4)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        places.end("tenant")
        waiting[0].cancel()  # its turn has come, and it has not run since
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*waiting)
        await asyncio.gather(*waiting[2:])
        assert order == [2, 3]

    asyncio.run(main())
