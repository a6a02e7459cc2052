"""What tests that run a job's function by themselves share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpus_kit import json_lines

from core.files.encrypted_file import EncryptedFileWriter, new_key
from gpu_workers.domains.spec import DomainSpec
from gpu_workers.jobs.messages import JobOrder


def no_charge() -> None:
    """The charge of a kind that charges nothing."""
    raise AssertionError("this kind of job has no charge")


def quiet(stage: str, fraction: float) -> None:
    """A progress report that nobody reads."""


def domain_order(folder: Path, of: list[dict[str, Any]], **options: int) -> JobOrder:
    """A domain job over these rows, with its encrypted input in the new `folder`."""
    folder.mkdir()
    key = new_key()
    writer = EncryptedFileWriter(folder / "input", key, "input")
    writer.write(json_lines(of))
    writer.close()
    spec = DomainSpec("law", "made up", "none", (str(folder / "law.safetensors"),), **options)
    return JobOrder("domain", folder, key, spec)
