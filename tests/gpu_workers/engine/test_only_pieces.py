"""Which payloads are cut where several workers run the tasks: those that say so, and those that run in pieces alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from core.mechanisms.vectors.spec import vector_spec
from core.text.policy import MaskPolicy
from gpu_workers.engine.arrays import Block, BlockArray
from gpu_workers.engine.protocol import Joined, Pieces, Role, Task
from gpu_workers.engine.task_queue import QueueLimits, TaskQueue
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from gpu_workers.handlers.tasks import EmbedTask, VectorTask


@dataclass(frozen=True)
class Rest:
    """What follows a first step, as `gpu_workers.handlers.fill_tasks.RestTask`."""

    only_pieces = True

    def pieces(self, weight_max: int) -> Pieces:
        return Pieces([Task("second", 1)], Joined)


@dataclass(frozen=True)
class Document:
    any_worker = True

    def pieces(self, weight_max: int) -> Pieces:
        return Pieces([Task("first", 1)], lambda _: Task(Rest(), 1, stepwise=True))


def test_one_of_several_workers_gets_no_task_that_no_handler_runs() -> None:
    async def main() -> None:
        queue = TaskQueue(Role.FILL, QueueLimits(), on_admitted=lambda: None, one_worker=False)
        queue.open()
        task = Task(Document(), 1, stepwise=True)
        call: asyncio.Task[list[Any]] = asyncio.create_task(
            queue.run([task], tenant="tenant", timeout_s=600, client_disconnected=asyncio.Event())
        )
        await asyncio.sleep(0)
        (first,) = queue.start_batch()
        assert first.task.payload == "first"
        first.finish("done")
        (second,) = queue.start_batch()
        assert second.task.payload == "second"
        second.finish("done as well")
        assert await call == [["done as well"]]

    asyncio.run(main())


@dataclass(frozen=True)
class Large:
    any_worker: bool

    def pieces(self, weight_max: int) -> Pieces:
        return Pieces([Task("piece", 1)], lambda results: Joined("joined"))


@pytest.mark.parametrize(("one_worker", "any_worker", "cut"), [(1, 0, 1), (1, 1, 1), (0, 0, 0), (0, 1, 1)])
def test_pieces_run_on_one_worker_or_where_the_payload_allows_any(one_worker: int, any_worker: int, cut: int) -> None:
    async def main() -> None:
        queue = TaskQueue(Role.SANITIZE, QueueLimits(), on_admitted=lambda: None, one_worker=bool(one_worker))
        queue.open()
        task = Task(Large(bool(any_worker)), QueueLimits().batch_tokens_max + 1)
        call: asyncio.Task[list[Any]] = asyncio.create_task(
            queue.run([task], tenant="tenant", timeout_s=600, client_disconnected=asyncio.Event())
        )
        await asyncio.sleep(0)
        (started,) = queue.start_batch()
        assert (started.task.payload == "piece") == bool(cut)
        started.finish("whole")
        assert await call == ["joined" if cut else "whole"]

    asyncio.run(main())


def test_documents_to_sanitise_and_vectors_are_cut_among_several_workers_and_texts_to_embed_are_not() -> None:
    spec = vector_spec(mechanism="laplace", dimension=4, epsilon=1)
    rows = BlockArray(Block(64), "float32", (4, 4))
    payloads: dict[Any, bool] = {
        DocumentTask("text", MaskPolicy()): True,
        VectorTask(spec, "tenant", rows, vectors=rows): True,
        VectorTask(spec, "tenant", rows, texts=("text",) * 4): False,
        EmbedTask(("text",), None, "clipped_cosine", "general", 10**9): False,
    }
    assert {payload: getattr(payload, "any_worker", False) for payload in payloads} == payloads
