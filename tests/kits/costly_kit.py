"""A handler of tasks that take long, that never end, or that end their worker, in a worker process."""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine_kit import END, TOY_FACTS

from gpu_workers.engine import worker
from gpu_workers.engine.handler import Draw, pause
from gpu_workers.facts import EmbedderFacts

CPU_S_MAX = 0.5  # of a preparation, so that a test does not wait


def set_preparation_limit(cpu_s: float) -> None:
    """In the worker that runs this, whose module runs as a program of its own or from the fork server."""
    for module in (worker, sys.modules["__main__"]):
        vars(module)["PREPARED_CPU_S_MAX"] = cpu_s


@dataclass(frozen=True)
class Costly:
    """A payload, which is answered with its text in capitals. Its work goes on until `text.go` exists in `folder`.

    `deadly`: it ends the worker, as the system does for want of memory.
    """

    text: str
    folder: str
    works: Literal["", "prepared", "drawn"] = ""
    interruptible: bool = False
    pauses: bool = False
    deadly: bool = False

    @property
    def interruptible_draw(self) -> bool:
        return self.interruptible

    def work(self) -> None:
        while not any((Path(self.folder) / name).exists() for name in (f"{self.text}.go", END)):
            sum(range(1000))
            if self.pauses:
                pause()


class CostlyHandler:
    def warm_up(self) -> EmbedderFacts:
        set_preparation_limit(CPU_S_MAX)
        return TOY_FACTS

    def prepare(self, tasks: Sequence[Costly]) -> Draw:
        for task in tasks:
            (Path(task.folder) / f"{task.text}.begun").touch()
            if task.deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            if task.works == "prepared":
                task.work()

        def draw() -> list[Any]:
            for task in tasks:
                if task.works == "drawn":
                    task.work()
            return [task.text.upper() for task in tasks]

        return draw


class PatientHandler(CostlyHandler):
    """Cuts nothing."""

    def warm_up(self) -> EmbedderFacts:
        set_preparation_limit(3600.0)
        return TOY_FACTS
