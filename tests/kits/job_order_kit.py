"""Orders of jobs without a gateway: the rows in an encrypted file, as a job's process finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from finetune_kit import LABELS
from job_kit import written_order
from synthesis_kit import SHOP

from core.finetune.hyperparameters import Hyperparameters
from core.finetune.pricing import training_budget
from core.synthesis.pricing import record_budget
from gpu_workers.finetune.spec import FinetuneSpec
from gpu_workers.jobs.messages import JobOrder
from gpu_workers.synthesis.spec import SynthesisSpec


def training_order(folder: Path, encoder: Path, rows: list[dict[str, Any]], plan: dict[str, Any]) -> JobOrder:
    """A private fine-tuning of `encoder` on the rows of both splits. What it makes goes beside `folder`."""
    spec = FinetuneSpec(
        name="towns",
        targets=(str(folder.parent / "out" / "towns.safetensors"),),
        labels=LABELS,
        pairs=False,
        method="lora",
        model="tiny",
        model_path=str(encoder),
        budget=training_budget(**plan),
        hyperparameters=Hyperparameters(rank=3),
        public_rows_max=20,
        text_chars_max=1_000,
    )
    return written_order("finetune", folder, spec, rows)


def synthesis_order(folder: Path, rows: list[dict[str, Any]]) -> JobOrder:
    """Marginals of rows of SHOP. What it makes goes beside `folder`."""
    spec = SynthesisSpec(
        name="shop",
        targets=(str(folder.parent / "out" / "shop.safetensors"),),
        report=str(folder.parent / "out" / "shop.html"),
        declared=SHOP,
        method="marginals",
        budget=record_budget(1, 1e-5),
        rows_are_public=True,
        outside="refuse",
        design="low_order",
        frequencies=10,
        bins=8,
        steps=3,
        rows_max=1_000,
    )
    return written_order("synthesis", folder, spec, rows)
