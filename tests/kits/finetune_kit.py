"""What the tests of private fine-tuning share: tiny classifiers in a method's form, and rows of both labels."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from transformers import AutoModel

from gpu_workers.finetune.classifier import Base, Batch, Classifier, Rows, load_base
from gpu_workers.finetune.gradients import Method, PrivateGradient, Trained, prepare

CPU = torch.device("cpu")
LABELS = ("away", "home")


def texts(count: int, *, pairs: bool = False) -> list[tuple[str, ...]]:
    """Rows of several lengths; those that name a town are the odd ones."""
    found: list[tuple[str, ...]] = []
    for row in range(count):
        place = tiny_models.TOWNS[row // 2 % 4] if row % 2 else "shop"
        words = [tiny_models.PEOPLE[row % 4], "went", "to", place, *tiny_models.PLAIN[: row % 13]]
        found.append((" ".join(words), "she was near our house") if pairs else (" ".join(words),))
    return found


def labels(count: int) -> list[str]:
    return [LABELS[row % 2] for row in range(count)]


def labelled(count: int, *, pairs: bool = False, **more: str) -> list[dict[str, str]]:
    """Rows as a caller sends them; `more` stands in each."""
    members = ("text", "text_pair")
    return [
        {**dict(zip(members, row, strict=False)), "label": label, **more}
        for row, label in zip(texts(count, pairs=pairs), labels(count), strict=True)
    ]


@dataclass
class Tiny:
    """A classifier over a tiny checkpoint, in a method's form, with its rows."""

    base: Base
    model: Classifier
    trained: Trained
    rows: Rows

    def batch(self, *chosen: int) -> Batch:
        """These rows, which must be of one length."""
        (found,) = self.rows.batches(np.array(chosen), pieces_max=10_000)
        return found[1]


def checkpoint(folder: Path, family: str) -> Path:
    path = folder / family
    return path if path.exists() else tiny_models.checkpoint(path, family, AutoModel)


def tiny(path: Path | None, method: Method, *, pairs: bool = False, count: int = 24, stirred: bool = True) -> Tiny:
    """`stirred`: with weights where the head and the adapters start at zero, so that every gradient is one."""
    torch.manual_seed(5)
    base = load_base(path, device=CPU)
    model = Classifier(base, labels=2, pairs=pairs)
    trained = prepare(model, method, rank=3)
    if stirred:
        with torch.no_grad():
            for parameter in trained.own.values():
                parameter.add_(0.1 * torch.randn_like(parameter))
    trained.begin(0)
    numbers = [LABELS.index(label) for label in labels(count)]
    return Tiny(base, model, trained, Rows(base, texts(count, pairs=pairs), numbers, device=CPU))


@dataclass
class Memory:
    """A checkpoint in memory, and how often it was written."""

    state: bytes | None = None
    writes: list[int] = field(default_factory=list)

    def read(self) -> bytes | None:
        return self.state

    def write(self, state: bytes) -> None:
        self.state = state
        self.writes.append(len(state))


class Killed(Exception):
    """Stands for the death of the process."""


class StepsTaken:
    """Counts the private steps that are made, and ends the process, so to speak, before the step `die_at`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.die_at: int | None = None
        inner = PrivateGradient.step

        def step(gradient: PrivateGradient, batches: Iterable[Batch]) -> Any:
            if self.count == self.die_at:
                raise Killed
            self.count += 1
            self.on_step()
            return inner(gradient, batches)

        monkeypatch.setattr(PrivateGradient, "step", step)

    def on_step(self) -> None:
        """What happens at each of them."""
