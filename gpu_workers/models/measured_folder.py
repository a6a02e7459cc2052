"""The folder of `gpu_workers.models.measured` in this process. Every worker sets it, also those without torch."""

from __future__ import annotations

from pathlib import Path


class MeasuredFolder:
    """`path`: None, and nothing is kept."""

    path: Path | None = None
