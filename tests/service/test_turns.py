"""Turns of tenants at a limited number of places."""

from __future__ import annotations

import asyncio

from service.turns import Turns


def test_a_tenant_leaves_places_to_the_others() -> None:
    async def main() -> None:
        turns = Turns(3, tenant_places=2)
        greedy = [asyncio.create_task(turns.wait("greedy")) for _ in range(5)]
        await asyncio.sleep(0)
        await turns.wait("modest")
        await asyncio.sleep(0)
        assert [task.done() for task in greedy] == [True, True, False, False, False]
        assert (turns.unfinished, turns.unfinished_of("greedy"), turns.unfinished_of("modest")) == (6, 5, 1)
        turns.end("greedy")
        await greedy[2]
        for task in greedy:
            task.cancel()

    asyncio.run(main())


def test_a_caller_cancelled_just_before_its_turn_holds_nobody_up() -> None:
    async def main() -> None:
        turns = Turns(1)
        await turns.wait("a")
        leaving, staying = asyncio.create_task(turns.wait("b")), asyncio.create_task(turns.wait("c"))
        await asyncio.sleep(0)
        leaving.cancel()
        turns.end("a")  # before the cancelled caller runs again
        await staying
        assert turns.unfinished == 1

    asyncio.run(main())


def test_a_caller_cancelled_just_after_its_turn_gives_the_place_on() -> None:
    async def main() -> None:
        turns = Turns(1)
        await turns.wait("a")
        leaving, staying = asyncio.create_task(turns.wait("b")), asyncio.create_task(turns.wait("c"))
        await asyncio.sleep(0)
        turns.end("a")
        leaving.cancel()
        await staying
        assert leaving.cancelled()
        assert turns.unfinished == 1

    asyncio.run(main())
