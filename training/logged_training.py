"""A training that prints its progress and keeps its state in a plain file."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from gpu_workers.models.training_loop import Loss, Training

_SAVED_STEPS = 50  # about a minute on one core or a few


@dataclass(frozen=True)
class CheckpointFile:
    """A plain file."""

    path: Path

    def read(self) -> bytes | None:
        return self.path.read_bytes() if self.path.exists() else None

    def write(self, state: bytes) -> None:
        """Write atomically. On return, the state is on disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".partial")
        with unfinished.open("wb") as stream:
            stream.write(state)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(self.path)


class LoggedTraining(Training):
    """Prints the mean loss and the time of a step, and writes a checkpoint, every `_SAVED_STEPS` steps."""

    def run(self, loss_of: Loss, every: Callable[[int], None], every_steps: int) -> None:
        """See `Training.run`."""
        if self.step:
            print(f"resumes from step {self.step}", flush=True)
        losses: list[float] = []
        spent, begun = time.process_time(), time.monotonic()

        def logged(step: int) -> torch.Tensor:
            nonlocal spent, begun
            if losses and step % _SAVED_STEPS == 0:
                cpu, wall = (time.process_time() - spent) / len(losses), (time.monotonic() - begun) / len(losses)
                mean = sum(losses) / len(losses)
                print(
                    f"step {step}/{self.schedule.steps} loss {mean:.4f} {wall:.2f} s a step ({cpu:.2f} s of processor)",
                    flush=True,
                )
                self.save()
                losses.clear()
                spent, begun = time.process_time(), time.monotonic()
            loss = loss_of(step)
            losses.append(loss.item())
            return loss

        super().run(logged, every, every_steps)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Replace the parameters by their running average inside the `with` block."""
        kept = {name: tensor.detach().clone() for name, tensor in self.parameters.items()}
        self.use_average()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, tensor in self.parameters.items():
                    tensor.copy_(kept[name])
