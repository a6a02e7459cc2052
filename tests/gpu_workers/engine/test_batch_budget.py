"""The token budget of a batch on a slow device, alone and beside other tenants; what a batch waits for."""

from __future__ import annotations

import asyncio

import pytest

from gpu_workers.engine import pace, task_queue
from gpu_workers.engine.pace import CROWDED_BATCH_S
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.engine.task_queue import QueueLimits, TaskQueue

LIMITS = QueueLimits(batch_tokens_max=4096)
SLOW, FAST = 10_000, 10_000_000  # tokens a second


@pytest.mark.parametrize("speed", [SLOW, FAST])
def test_other_active_tenants_shorten_the_batches_of_a_slow_device(speed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "ACTIVE_S", 3600.0)

    async def main() -> None:
        queue = TaskQueue(Role.EMBED, LIMITS, on_admitted=lambda: None)
        queue.open()
        running: list[asyncio.Task[object]] = []

        async def submit(tenant: str, tasks: int) -> None:
            group = [Task(None, 64) for _ in range(tasks)]
            left = asyncio.Event()
            running.append(
                asyncio.create_task(queue.run(group, tenant=tenant, timeout_s=600, client_disconnected=left))
            )
            await asyncio.sleep(0)

        def next_batch() -> int:
            return sum(pending.work for pending in queue.start_batch())

        await submit("greedy", 1000)
        assert next_batch() == 4096
        queue.pace.measured(4096, 4096 / speed)
        assert next_batch() == 4096, "nobody else is active"
        await submit("modest", 1)
        next_batch()  # has the task of the other tenant
        assert queue.budget == (4096 if speed == FAST else int(SLOW * CROWDED_BATCH_S))
        assert queue.budget - 64 < next_batch() <= queue.budget
        for task in running:
            task.cancel()

    asyncio.run(main())


def test_a_batch_waits_for_more_only_where_requests_arrive_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(task_queue.time, "monotonic", lambda: now)

    async def main() -> None:
        nonlocal now
        queue = TaskQueue(Role.EMBED, LIMITS, on_admitted=lambda: None)
        queue.open()
        running: list[asyncio.Task[object]] = []

        async def submit() -> None:
            work = queue.run([Task(None, 64)], tenant="one", timeout_s=600, client_disconnected=asyncio.Event())
            running.append(asyncio.create_task(work))
            await asyncio.sleep(0)

        await submit()
        assert queue.linger_s(2.0) == 0, "nothing else has arrived"
        queue.start_batch()
        now += 10
        await submit()
        assert queue.linger_s(2.0) == 0, "the last request was long ago"
        now += 1
        await submit()
        assert queue.linger_s(2.0) == 1, "two have arrived within a second"
        assert len(queue.start_batch()) == 2
        now += 10
        await submit()
        assert queue.linger_s(2.0) == 2, "the last batch was of two requests"
        queue.start_batch()
        now += 10
        await submit()
        assert queue.linger_s(2.0) == 0
        for task in running:
            task.cancel()

    asyncio.run(main())
