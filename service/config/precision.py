"""The checks of `ENCODER_PRECISION`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def check_int8(encoder_path: Path | None, devices: Sequence[str]) -> None:
    """Raises ValueError if the encoder in 8-bit integers cannot run with these settings."""
    if encoder_path is not None:
        raise ValueError("ENCODER_PRECISION=int8 is for the bundled encoder: remove ENCODER_PATH")
    if any(device not in ("auto", "cpu") for device in devices):
        raise ValueError("ENCODER_PRECISION=int8 is for processors: DEVICES must be `auto` or `cpu`")
