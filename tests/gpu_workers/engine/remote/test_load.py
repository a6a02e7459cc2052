"""The load that a worker reports is the exact average of what it had in work and what waited."""

from __future__ import annotations

import asyncio

from gpu_workers.engine.remote.load import Load, LoadMeter
from gpu_workers.engine.remote.slots import Slots


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_an_average_counts_each_number_for_as_long_as_it_held() -> None:
    clock = Clock()
    meter = LoadMeter(clock=clock)
    meter.set(in_use=1, waiting=0)
    read = meter.reader()
    clock.now_s += 3
    meter.set(in_use=2, waiting=4)
    clock.now_s += 1
    assert read() == Load(in_use=1.25, waiting=1.0)
    clock.now_s += 5
    assert read() == Load(in_use=2, waiting=4), "the period since the last call"
    assert read() == Load(in_use=2, waiting=4), "a period of no length has the present numbers"


def test_readers_have_periods_of_their_own() -> None:
    clock = Clock()
    meter = LoadMeter(clock=clock)
    first = meter.reader()
    meter.set(in_use=2)
    clock.now_s += 1
    second = meter.reader()
    meter.set(in_use=0)
    clock.now_s += 1
    assert first() == Load(1, 0)
    assert second() == Load(0, 0)


def test_slots_count_what_is_granted_and_what_still_waits() -> None:
    async def main() -> None:
        slots = Slots(2, on_free=lambda: None)

        def now() -> Load:
            read = slots.load.reader()
            return read()  # of no length, on most clocks, or of one in which nothing changes

        slots.open()
        running = [slots.ask("a"), slots.ask("b")]
        waiting, gone = slots.ask("a"), slots.ask("c")
        await asyncio.sleep(0)
        assert now() == Load(2, 2)
        gone.cancel()  # its gateway has left
        await asyncio.sleep(0)
        assert now() == Load(2, 1)
        slots.close()
        slots.give_back(running[0].result())
        slots.give_back(running[0].result())  # it is free already
        assert now() == Load(1, 0), "nothing is granted while the worker drains or its handler starts again"
        slots.open()
        assert waiting.done()
        slots.give_back(running[1].result())
        slots.give_back(waiting.result())
        assert now() == Load(0, 0)

    asyncio.run(main())
