"""A queue without an engine: what a batch holds and waits for, and which payloads are cut for several workers."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from profile_kit import counted_calls

from gpu_workers.engine import task_queue
from gpu_workers.engine.protocol import Divided, Joined, Role, Task
from gpu_workers.engine.task_queue import CROWDED_BATCH_S, LONE_BATCH_S, QueueLimits, TaskQueue

LIMITS = QueueLimits(batch_tokens_max=4096)
SLOW, FAST = 10_000, 10_000_000  # tokens a second


class Queue(TaskQueue):
    """An open queue, whose calls a test may leave unfinished."""

    def __init__(self, *, one_worker: bool = True) -> None:
        super().__init__(Role.EMBED, LIMITS, on_admitted=lambda: None, one_worker=one_worker)
        self.open()

    async def submit(self, *tasks: Task, tenant: str = "tenant") -> asyncio.Task[list[Any]]:
        left = asyncio.Event()
        call = asyncio.create_task(self.run(tasks, tenant=tenant, timeout_s=600, client_disconnected=left))
        await asyncio.sleep(0)
        return call


@pytest.mark.parametrize("speed", [SLOW, FAST])
def test_other_active_tenants_shorten_the_batches_of_a_slow_device(speed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_queue, "ACTIVE_S", 3600.0)

    async def main() -> None:
        queue = Queue()

        def next_batch() -> int:
            return sum(pending.work for pending in queue.start_batch())

        greedy = await queue.submit(*(Task(None, 64) for _ in range(1000)), tenant="greedy")
        assert next_batch() == 4096
        queue.pace.measured(4096, 4096 / speed)
        alone = 4096 if speed == FAST else int(SLOW * LONE_BATCH_S)
        assert alone - 64 < next_batch() <= alone, "nobody else is active"

        modest = await queue.submit(Task(None, 64), tenant="modest")
        next_batch()  # has the task of the other tenant
        assert queue.budget == (4096 if speed == FAST else int(SLOW * CROWDED_BATCH_S))
        assert queue.budget - 64 < next_batch() <= queue.budget
        assert not greedy.done()
        assert not modest.done()

    asyncio.run(main())


def test_a_batch_waits_for_more_only_where_requests_arrive_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(task_queue.time, "monotonic", lambda: now)

    async def main() -> None:
        nonlocal now
        queue, calls = Queue(), []
        for later, linger_s, batch in [
            (0, 0, 1),  # nothing else has arrived
            (10, 0, 0),  # the last request was long ago
            (1, 1, 2),  # two have arrived within a second
            (10, 2, 1),  # the last batch was of two requests
            (10, 0, 1),
        ]:
            now += later
            calls.append(await queue.submit(Task(None, 64)))
            assert queue.linger_s(2.0) == linger_s
            assert not batch or len(queue.start_batch()) == batch

    asyncio.run(main())


@dataclass(frozen=True)
class Rest:
    """What follows a first step, as `gpu_workers.handlers.sanitize_tasks.RestTask`."""

    only_pieces = True

    def pieces(self, weight_max: int) -> Divided:
        return Divided([Task("second", 1)], Joined)


@dataclass(frozen=True)
class Document:
    any_worker = True

    def pieces(self, weight_max: int) -> Divided:
        return Divided([Task("first", 1)], lambda _: Task(Rest(), 1, stepwise=True))


def test_one_of_several_workers_gets_no_task_that_no_handler_runs() -> None:
    async def main() -> None:
        queue = Queue(one_worker=False)
        call = await queue.submit(Task(Document(), 1, stepwise=True))
        for step, result in (("first", "done"), ("second", "done as well")):
            (pending,) = queue.start_batch()
            assert pending.task.payload == step
            pending.finish(result)
        assert await call == [["done as well"]]

    asyncio.run(main())


@dataclass(frozen=True)
class Large:
    any_worker: bool

    def pieces(self, weight_max: int) -> Divided:
        return Divided([Task("piece", 1)], lambda results: Joined("joined"))


def test_pieces_run_on_one_worker_or_where_the_payload_allows_any() -> None:
    async def main() -> None:
        for one_worker, any_worker, cut in [(1, 0, 1), (1, 1, 1), (0, 0, 0), (0, 1, 1)]:
            queue = Queue(one_worker=bool(one_worker))
            call = await queue.submit(Task(Large(bool(any_worker)), LIMITS.batch_tokens_max + 1))
            (started,) = queue.start_batch()
            assert (started.task.payload == "piece") == bool(cut)
            started.finish("whole")
            assert await call == ["joined" if cut else "whole"]

    asyncio.run(main())


def test_callers_that_wait_for_capacity_cost_the_requests_of_others_nothing() -> None:
    """Calls of Python until a request has been admitted, which do not depend on the machine."""

    async def calls(waiting: int) -> int:
        queue = Queue()
        await queue.submit(*[Task(None, 1)] * 8192, tenant="greedy")
        wanted = [Task(None, 1)] * 8000
        callers = [
            asyncio.create_task(queue.wait_for_capacity(wanted, tenant="greedy", timeout_s=600)) for _ in range(waiting)
        ]
        await asyncio.sleep(0)
        with counted_calls() as counts:
            await queue.submit(Task(None, 1), tenant="modest")
            for _ in range(5):
                await asyncio.sleep(0)
        assert not any(caller.done() for caller in callers)
        for _ in range(16):
            queue.start_batch()
        await asyncio.gather(*callers)
        return counts["call"]

    assert asyncio.run(calls(400)) < asyncio.run(calls(1)) + 400
