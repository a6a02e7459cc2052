"""The checks of `ENCODER_PRECISION`, and the value that workers receive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpu_workers.models.sources import AUTO_PRECISION, FLOATING

_PROCESSORS = ("auto", "cpu")


def check_int8(encoder_path: Path | None, devices: Sequence[str]) -> None:
    """Raises ValueError if the encoder in 8-bit integers cannot run with these settings."""
    if encoder_path is not None:
        raise ValueError("ENCODER_PRECISION=int8 is for the bundled encoder: remove ENCODER_PATH")
    if any(device not in _PROCESSORS for device in devices):
        raise ValueError("ENCODER_PRECISION=int8 is for processors: DEVICES must be `auto` or `cpu`")


def check_devices(devices: Sequence[str]) -> None:
    """Raises ValueError for processors beside GPUs, which round differently. What `auto` is, the workers find out."""
    if len({device.partition(":")[0] for device in devices} - {"auto"}) > 1:
        raise ValueError("DEVICES must be of one kind, such as two GPUs: which worker embeds a text must not matter")


def precision_of_workers(precision: str, encoder_path: Path | None, devices: Sequence[str]) -> str:
    """All workers of a gateway compute vectors of one space: `auto` is `float` for all of them if one needs it, also if
    `auto` among other devices may be a GPU."""
    alike = len(set(devices)) == 1 and devices[0] in _PROCESSORS
    if precision == AUTO_PRECISION and (encoder_path or not alike):
        return FLOATING
    return precision
