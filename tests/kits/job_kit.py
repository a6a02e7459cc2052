"""Orders of jobs without a gateway, and the other arguments of a job's function."""

from functools import cache
from pathlib import Path
from typing import Any

from corpus_kit import json_lines
from synthesis_kit import SHOP

from core.files.encrypted_file import EncryptedFileWriter, new_key
from core.finetune.inputs import Hyperparameters
from core.finetune.plan import training_budget
from core.synthesis.pricing import record_budget
from gpu_workers.domains.spec import DomainSpec
from gpu_workers.finetune.spec import FinetuneSpec
from gpu_workers.jobs.protocol import INPUT, JobOrder
from gpu_workers.synthesis.spec import SynthesisSpec


def no_charge() -> None:
    """The charge of a kind that charges nothing."""
    raise AssertionError("this kind of job has no charge")


def quiet(stage: str, fraction: float) -> None:
    """A progress report that nobody reads."""


def domain_order(folder: Path, of: list[dict[str, Any]], **options: int) -> JobOrder:
    """A domain job over these rows, with its encrypted input in the new `folder`."""
    spec = DomainSpec("law", "made up", "none", (str(folder / "law.safetensors"),), **options)
    return written_order("domain", folder, spec, of)


def written_order(kind: str, folder: Path, spec: Any, of: list[dict[str, Any]] | bytes) -> JobOrder:
    """A job over these rows, with its encrypted input in the new `folder`."""
    folder.mkdir()
    key = new_key()
    writer = EncryptedFileWriter(folder / INPUT, key, INPUT)
    writer.write(of if isinstance(of, bytes) else json_lines(of))
    writer.close()
    return JobOrder(kind, folder, key, spec)


budget = cache(training_budget)


def training_order(folder: Path, encoder: Path, rows: list[dict[str, Any]], plan: dict[str, Any]) -> JobOrder:
    """A private fine-tuning of `encoder` on the rows of both splits. What it makes goes beside `folder`."""
    from finetune_kit import LABELS

    spec = FinetuneSpec(
        name="towns", targets=(str(folder.parent / "out" / "towns.safetensors"),), labels=LABELS, pairs=False,
        method="lora", model="tiny", model_path=str(encoder), budget=budget(**plan),
        hyperparameters=Hyperparameters(rank=3), public_rows_max=20, text_chars_max=1_000,
    )  # fmt: skip
    return written_order("finetune", folder, spec, rows)


def synthesis_order(folder: Path, rows: list[dict[str, Any]]) -> JobOrder:
    """Marginals of rows of SHOP. What it makes goes beside `folder`."""
    spec = SynthesisSpec(
        name="shop", targets=(str(folder.parent / "out" / "shop.safetensors"),),
        report=str(folder.parent / "out" / "shop.html"), declared=SHOP, method="marginals",
        budget=record_budget(1, 1e-5), rows_are_public=True, outside="refuse", design="low_order", frequencies=10,
        bins=8, steps=3, rows_max=1_000,
    )  # fmt: skip
    return written_order("synthesis", folder, spec, rows)
