"""What tests that run a job's function by themselves share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpus_kit import json_lines

from core.files.encrypted_file import EncryptedFileWriter, new_key
from gpu_workers.domains.spec import DomainSpec
from gpu_workers.jobs.messages import INPUT, JobOrder


def no_charge() -> None:
    """The charge of a kind that charges nothing."""
    raise AssertionError("this kind of job has no charge")


def quiet(stage: str, fraction: float) -> None:
    """A progress report that nobody reads."""


def domain_order(folder: Path, of: list[dict[str, Any]], **options: int) -> JobOrder:
    """A domain job over these rows, with its encrypted input in the new `folder`."""
    spec = DomainSpec("law", "made up", "none", (str(folder / "law.safetensors"),), **options)
    return written_order("domain", folder, spec, of)


def written_order(kind: str, folder: Path, spec: Any, of: list[dict[str, Any]]) -> JobOrder:
    """A job over these rows, with its encrypted input in the new `folder`."""
    folder.mkdir()
    key = new_key()
    writer = EncryptedFileWriter(folder / INPUT, key, INPUT)
    writer.write(json_lines(of))
    writer.close()
    return JobOrder(kind, folder, key, spec)
