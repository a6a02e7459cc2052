"""A payload that runs in pieces alone is always cut, also after the queue has ceased to cut large tasks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from gpu_workers.engine.protocol import Joined, Pieces, Role, Task
from gpu_workers.engine.task_queue import QueueLimits, TaskQueue


@dataclass(frozen=True)
class Rest:
    """What follows a first step, as `gpu_workers.handlers.fill_tasks.RestTask`."""

    only_pieces = True

    def pieces(self, weight_max: int) -> Pieces:
        return Pieces([Task("second", 1)], Joined)


@dataclass(frozen=True)
class Document:
    def pieces(self, weight_max: int) -> Pieces:
        return Pieces([Task("first", 1)], lambda _: Task(Rest(), 1, stepwise=True))


def test_a_second_worker_that_becomes_reachable_gets_no_task_that_no_handler_runs() -> None:
    async def main() -> None:
        queue = TaskQueue(Role.FILL, QueueLimits(), on_admitted=lambda: None)
        queue.open()
        task = Task(Document(), 1, stepwise=True)
        call: asyncio.Task[list[Any]] = asyncio.create_task(
            queue.run([task], tenant="tenant", timeout_s=60, client_disconnected=asyncio.Event())
        )
        await asyncio.sleep(0)
        (first,) = queue.start_batch()
        assert first.task.payload == "first"
        first.finish("done")
        queue.cut_large_tasks(False)
        (second,) = queue.start_batch()
        assert second.task.payload == "second"
        second.finish("done as well")
        assert await call == [["done as well"]]

    asyncio.run(main())
