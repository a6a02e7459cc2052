"""Turns of tenants at a limited number of places."""

from __future__ import annotations

import asyncio

from gpu_workers.engine.fairness import Turns


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


def test_a_caller_cancelled_just_before_or_after_its_turn_holds_nobody_up() -> None:
    async def main(*, before: bool) -> None:
        turns = Turns(1)
        await turns.wait("a")
        leaving, staying = asyncio.create_task(turns.wait("b")), asyncio.create_task(turns.wait("c"))
        await asyncio.sleep(0)
        if before:
            leaving.cancel()
        turns.end("a")
        if not before:
            leaving.cancel()
        await staying
        assert before or leaving.cancelled()
        assert turns.unfinished == 1

    for before in (True, False):
        asyncio.run(main(before=before))
