"""Workers of one role compute in one arithmetic: a document has one vector, whatever company it comes in."""

import asyncio

import pytest
from engine_kit import HELD_S_MAX, Bench, OtherArithmetic, ToyHandler, on_bench

from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local_engine import LocalEngine, WorkerPoolOptions
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.task_queue import Engine, QueueLimits

pytestmark = pytest.mark.usefixtures("processes")
SAID = "ready; another worker's last start failed: it computes other numbers than the first worker of its role"


def engine_of(*workers: HandlerFactory) -> Engine:
    limits = QueueLimits(batch_tokens_max=100)
    return LocalEngine({Role.EMBED: WorkerPoolOptions(workers=workers, limits=limits, batch_linger_ms=1)})


async def until_said(engine: Engine, stage: str) -> None:
    async with asyncio.timeout(HELD_S_MAX):
        while engine.status(Role.EMBED).stage != stage:
            await asyncio.sleep(0.01)


@on_bench(lambda: engine_of(ToyHandler, OtherArithmetic))
async def test_a_worker_that_computes_other_numbers_serves_nothing_and_readiness_says_so(on: Bench) -> None:
    facts = on.engine.status(Role.EMBED).facts
    await until_said(on.engine, SAID)
    answers = [
        await asyncio.gather(*(on.run(on.work(f"w{i}-{weight}", weight=weight)) for i in range(6)))
        for weight in (5, 60, 100)
    ]
    cases = {text.isupper() for group in answers for (text,) in group}
    assert len(cases) == 1, "one worker of the two answers all"
    assert on.engine.status(Role.EMBED).facts == facts


@on_bench(lambda: engine_of(ToyHandler, ToyHandler))
async def test_workers_that_compute_alike_serve_side_by_side(on: Bench) -> None:
    calls = [await on.submit(on.work(name, weight=100, held=True)) for name in ("one", "two")]
    await on.has_started("one")
    await on.has_started("two")
    on.let_go("one", "two")
    assert await asyncio.gather(*calls) == [["ONE"], ["TWO"]]
    assert on.engine.status(Role.EMBED).stage == "ready"
