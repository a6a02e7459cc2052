"""Workers of one role compute in one arithmetic: a document has one vector, whatever company it comes in."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from engine_kit import HELD_S_MAX, Bench, OtherArithmetic, ToyHandler, embedder_in, on_bench

from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local.engine import LocalEngine
from gpu_workers.engine.local.worker_pool import WorkerPoolOptions
from gpu_workers.engine.protocol import Engine, Role, Task
from gpu_workers.engine.task_queue import QueueLimits
from gpu_workers.handlers.tasks import EncodeTask

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


@pytest.mark.slow("process")
@on_bench(lambda: engine_of(partial(embedder_in, "bfloat16"), partial(embedder_in, "float32")))
async def test_a_document_has_one_vector_whatever_its_company(on: Bench) -> None:
    """Two embed workers, in bfloat16 and in float32."""
    document = EncodeTask(("The parcel left the warehouse on Monday.", "Nobody could say who had signed for it."))
    long = EncodeTask(("A sentence of another document, which keeps a worker for a while. " * 20,) * 4)

    async def vectors(company: int) -> bytes:
        tasks = [Task(long, 100) for _ in range(company)]
        others = [asyncio.ensure_future(on.run(task, tenant=f"other-{i}")) for i, task in enumerate(tasks)]
        await asyncio.sleep(0)
        (encoded,) = await on.run(Task(document, 20))
        await asyncio.gather(*others)
        return bytes(encoded.vectors.tobytes())

    await until_said(on.engine, SAID)
    assert len({await vectors(company) for company in (0, 1, 2, 3, 5)}) == 1
