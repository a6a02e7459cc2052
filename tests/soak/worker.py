"""Worker processes of the soak: a handler without a model, in the local engine of each gateway."""

import random
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from toys.toy_engine import FACTS, ToyEngine

from gpu_workers.engine.handler import Draw
from gpu_workers.engine.local_engine import LocalEngine, WorkerPoolOptions
from gpu_workers.engine.protocol import Role
from gpu_workers.facts import WorkerFacts

WORK_S_MAX = 0.05


class SoakHandler:
    """Answers after a random moment, so that a kill meets batches before, during and after their work."""

    def __init__(self, role: Role) -> None:
        self._role = role

    def warm_up(self) -> WorkerFacts:
        return FACTS[self._role]

    def prepare(self, tasks: Sequence[Any]) -> Draw:
        def draw() -> list[Any]:
            time.sleep(random.uniform(0, WORK_S_MAX))
            return [ToyEngine.answer(task) for task in tasks]

        return draw


def soak_engine() -> LocalEngine:
    """Two embed workers and a sanitise worker."""
    workers = {Role.EMBED: 2, Role.SANITIZE: 1}
    return LocalEngine(
        {role: WorkerPoolOptions(workers=[partial(SoakHandler, role)] * count) for role, count in workers.items()}
    )
