"""The parameters of a fine-tuning job. The front end builds them, so this module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.finetune.inputs import Hyperparameters

if TYPE_CHECKING:  # imports scipy, which the front end does not load
    from core.finetune.plan import TrainingBudget


BUNDLED = "bundled"  # the name of the gateway's own encoder


@dataclass(frozen=True)
class FinetuneSpec:
    """The parameters of a fine-tuning job besides its rows. `targets`: as in `DomainSpec`.

    `model` is the encoder's name in the operator's settings, `model_path` its folder, None for the bundled one.
    `budget`: the plan of the run, and what the ledger holds for it.
    """

    name: str
    targets: tuple[str, ...]
    labels: tuple[str, ...]
    pairs: bool
    method: str
    model: str
    model_path: str | None
    budget: TrainingBudget
    hyperparameters: Hyperparameters
    public_rows_max: int
    text_chars_max: int
    device: str = "cpu"
    threads: int = 0
