"""A lane whose work is cut before its first step loses neither its slot nor a batch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from engine_kit import TOKEN, Work, free_address, toy_codec

from gpu_workers.engine.pending import PendingTask
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.replica import Lane, Phase, Replica
from gpu_workers.engine.task_queue import QueueLimits, TaskQueue


def test_work_that_is_cut_before_its_first_step_leaves_the_lane_idle(tmp_path: Path) -> None:
    async def main() -> None:
        queue = TaskQueue(Role.EMBED, QueueLimits(), on_admitted=lambda: None)
        queue.open()
        task = Task(Work("waiting", str(tmp_path)), 1)
        call: asyncio.Task[list[Any]] = asyncio.create_task(
            queue.run([task], tenant="tenant", timeout_s=600, client_disconnected=asyncio.Event())
        )
        await asyncio.sleep(0)
        replica = Replica(
            free_address(),
            toy_codec(),
            Access(TOKEN),
            gateway="gateway",
            on_state=lambda: None,
            on_lane=lambda: None,
            put_back=queue.put_back,
            on_batch=lambda tokens, seconds: None,
        )
        lane = replica.lanes[0]
        lane.ask()
        await cut(lane)
        batch: list[PendingTask] = queue.start_batch()
        lane.run(batch)
        await cut(lane)
        assert len(queue) == 1
        assert not batch[0].group.started
        (again,) = queue.start_batch()
        again.finish("done")
        assert await call == ["done"]
        await replica.stop()

    asyncio.run(main())


async def cut(lane: Lane) -> None:
    lane.cut()
    async with asyncio.timeout(60):
        while lane.phase is not Phase.IDLE:
            await asyncio.sleep(0.01)
