"""The settings of the files that a worker server keeps: packs, models, recognisers and matrices of its gateways."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

MIB = 1024 * 1024
WORKER_FILES = "worker-files"  # the default folder, in the data directory


class WorkerFileSettings(BaseModel):
    """Where a worker server keeps them, and how many bytes."""

    worker_files_dir: Path | None = None
    worker_files_bytes_max: int = Field(4096 * MIB, ge=0)
