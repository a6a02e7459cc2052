"""A training loop that can be stopped at any moment and resumed.

The batch of a step is a function of the seed and the step's number alone, so the order of the data needs no stored
state. A checkpoint holds the step, the weights, their running average and the optimiser.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

Loss = Callable[[int], torch.Tensor]


class Checkpoint(Protocol):
    """Stores the state of a training between two processes."""

    def read(self) -> bytes | None: ...

    def write(self, state: bytes) -> None: ...


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, constant, then linear decay to zero over the last quarter."""

    steps: int
    rate: float
    warmup: int = 100
    average: float = 0.998  # decay of the running average of the weights, which is exported

    def factor(self, step: int) -> float:
        left = (self.steps - step) / max(1, self.steps // 4)
        return min(1.0, (step + 1) / self.warmup, max(left, 0.0))


class Training:
    """Named parameters, their running average, AdamW, and the number of steps done."""

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        schedule: Schedule,
        checkpoint: Checkpoint,
    ) -> None:
        self.parameters = dict(parameters)
        self.schedule = schedule
        self._checkpoint = checkpoint
        self.step = 0
        self.average = {name: tensor.detach().clone() for name, tensor in self.parameters.items()}
        self._optimiser = torch.optim.AdamW(self.parameters.values(), lr=schedule.rate, weight_decay=0.01)
        state = checkpoint.read()
        if state is not None:
            self._load(state)

    def run(self, loss_of: Loss, every: Callable[[int], None], every_steps: int) -> None:
        """Train to the end of the schedule. `every` is called each `every_steps` steps, after a checkpoint."""
        while self.step < self.schedule.steps:
            loss_of(self.step).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), 1.0)
            for group in self._optimiser.param_groups:
                group["lr"] = self.schedule.rate * self.schedule.factor(self.step)
            self._optimiser.step()
            self._optimiser.zero_grad()
            self._follow()
            self.step += 1
            if self.step % every_steps == 0 or self.step == self.schedule.steps:
                self.save()
                every(self.step)

    def _follow(self) -> None:
        decay = min(self.schedule.average, (1 + self.step) / (10 + self.step))
        for name, tensor in self.parameters.items():
            self.average[name].lerp_(tensor.detach(), 1 - decay)

    @torch.no_grad()
    def use_average(self) -> None:
        """Replace the parameters by their running average."""
        for name, tensor in self.parameters.items():
            tensor.copy_(self.average[name])

    def save(self) -> None:
        """Write the checkpoint."""
        state = {
            "step": self.step,
            "parameters": {name: tensor.detach() for name, tensor in self.parameters.items()},
            "average": self.average,
            "optimiser": self._optimiser.state_dict(),
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        self._checkpoint.write(buffer.getvalue())

    def _load(self, saved: bytes) -> None:
        device = next(iter(self.parameters.values())).device
        state = torch.load(io.BytesIO(saved), weights_only=True, map_location=device)
        self.step = state["step"]
        self.average = state["average"]
        self._optimiser.load_state_dict(state["optimiser"])
        with torch.no_grad():
            for name, tensor in self.parameters.items():
                tensor.copy_(state["parameters"][name])
