"""Places of a tenant: given in the order of arrival, and given on by who leaves."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from service.admission import TenantPlaces


def test_places_are_given_in_the_order_of_arrival_past_those_who_left() -> None:
    async def main() -> None:
        places = TenantPlaces(1, wait_s=60, limit="a_setting")
        order: list[int] = []

        async def use(number: int) -> None:
            await places.take("tenant")
            order.append(number)
            places.give_back("tenant")

        await places.take("tenant")
        assert places.is_full("tenant")
        assert not places.is_full("another")
        waiting = [asyncio.create_task(use(number)) for number in range(4)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        places.give_back("tenant")
        waiting[0].cancel()  # its turn has come, and it has not run since
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*waiting)
        await asyncio.gather(*waiting[2:])
        assert order == [2, 3]

    asyncio.run(main())
