"""What a fine-tuning job takes. Light: the front end builds it without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.finetune.hyperparameters import Hyperparameters

if TYPE_CHECKING:  # imports scipy, which the front end does without
    from core.finetune.pricing import TrainingBudget


BUNDLED = "bundled"  # the name of the gateway's own encoder


@dataclass(frozen=True)
class FinetuneSpec:
    """What a fine-tuning job takes besides its rows. `targets`: as a domain's.

    `model` is the encoder's name among the operator's, `model_path` its folder, None for the bundled one. `budget`:
    the plan that will be run, and what the ledger holds for it.
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
