"""Turns of tenants at a limited number of places."""

import asyncio
from contextlib import suppress

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
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        assert turns.unfinished == 1

    for before in (True, False):
        asyncio.run(main(before=before))


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


def test_a_caller_of_one_tenant_starts_whoever_else_waits_for_places_of_their_own() -> None:
    async def main() -> None:
        places = Turns(tenant_places=1, wait_s=60, limit="a_setting")
        held = {tenant: await places.wait(tenant) for tenant in ("a", "b")}
        waiting = {tenant: asyncio.create_task(places.wait(tenant)) for tenant in held}
        await asyncio.sleep(0)
        (await places.wait("c")).close()
        held["b"].close()
        (await waiting["b"]).close()
        assert not waiting["a"].done()
        held["a"].close()
        (await waiting["a"]).close()
        assert places.unfinished == 0

    asyncio.run(main())


def test_a_caller_that_is_closed_while_it_waits_gives_back_nothing() -> None:
    async def main() -> None:
        turns = Turns(1)
        held = await turns.wait("a")
        closed = turns.wait("b")
        closed.send(None)
        closed.close()
        assert (turns.unfinished, turns.unfinished_of("b")) == (1, 0)
        held.close()
        (await turns.wait("c")).close()
        assert turns.unfinished == 0

    asyncio.run(main())
