"""The slots of a worker, over all gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gpu_workers.engine.remote.slots import Slots


def on_loop(check: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await check()

    asyncio.run(main())


def test_no_more_are_granted_than_there_are() -> None:
    async def check() -> None:
        freed: list[None] = []
        slots = Slots(2, on_free=lambda: freed.append(None))
        first = slots.ask("a")
        assert not first.done()
        slots.open()
        second, third = slots.ask("a"), slots.ask("a")
        assert (first.done(), second.done(), third.done(), slots.granted, slots.waiting) == (True, True, False, 2, 1)
        slots.give_back(first.result())
        assert len({first.result(), second.result(), third.result()}) == 3
        slots.give_back(first.result())  # it is free already
        assert (slots.granted, len(freed)) == (2, 2)

    on_loop(check)


def test_gateways_get_slots_in_turn_however_many_they_ask_for() -> None:
    async def check() -> None:
        slots = Slots(1, on_free=lambda: None)
        slots.open()
        running = slots.ask("a")
        asked = [(name, slots.ask(name)) for name in "aaaabbc"]
        order = []
        for _ in range(7):
            slots.give_back(running.result())
            running = next(future for _, future in asked if future.done() and future not in order)
            order.append(running)
        assert [next(name for name, future in asked if future is one) for one in order] == list("abcabaa")

    on_loop(check)


@pytest.mark.parametrize("close", [True, False])
def test_those_that_no_longer_wait_are_passed_over(close: bool) -> None:
    async def check() -> None:
        slots = Slots(1, on_free=lambda: None)
        slots.open()
        running, gone, waiting = slots.ask("a"), slots.ask("b"), slots.ask("c")
        gone.cancel()
        if close:
            slots.close()
        slots.give_back(running.result())
        assert waiting.done() is not close
        slots.open()
        assert waiting.done()
        assert slots.waiting == 0

    on_loop(check)
