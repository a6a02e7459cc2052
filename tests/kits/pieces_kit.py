"""Runs documents of several tenants on the inline engine, and shows in which batches their tasks came."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from engine_kit import TOY_FACTS
from inline_engine import DEFAULT_LIMITS, InlineEngine

from gpu_workers.engine.handler import Handler
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.engine.task_queue import QueueLimits
from gpu_workers.facts import WorkerFacts


class Recording:
    """A handler that is ready. Keeps the payloads of each batch."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.batches: list[list[Any]] = []

    def warm_up(self) -> WorkerFacts:
        return TOY_FACTS

    def prepare(self, tasks: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        self.batches.append(list(tasks))
        return self._handler.prepare(tasks)


def run_batches(
    role: Role,
    handler: Handler,
    *groups: tuple[str, list[Any]],
    limits: QueueLimits = DEFAULT_LIMITS,
    isolate: bool = True,
) -> tuple[list[Any], list[list[Any]]]:
    """Submit each group for its tenant, in order. Return the results, errors included, and the batches.

    `isolate`: a payload that fails fails alone. Otherwise it fails its group.
    """
    recording = Recording(handler)

    async def main() -> list[Any]:
        engine = InlineEngine({role: lambda: recording}, limits=limits)
        await engine.start()
        try:
            return await asyncio.gather(
                *(
                    engine.run(
                        role, [Task(task, task.weight, stepwise=getattr(task, "stepwise", False)) for task in tasks],
                        tenant=tenant, timeout_s=600, client_disconnected=asyncio.Event(), isolate_failures=isolate,
                    )
                    for tenant, tasks in groups
                ),
                return_exceptions=True,
            )  # fmt: skip
        finally:
            await engine.stop()

    return asyncio.run(main()), recording.batches
