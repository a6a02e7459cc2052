"""The file of a shipped adapter: safetensors with a description in the metadata. No pickle.

An adapter of a rank holds float16 tensors that are added to the encoder's weights (`lora.merged`). One of rank 0 holds
weights that replace the encoder's: its matrices are 8-bit integers with one float32 scale a row (`NAME.scale`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu_workers.models.tensor_file import read_tensors, write_tensors

_FORMAT = "privacy-gateway/adapter/1"
_FORMAT_WHOLE = "privacy-gateway/adapter/2"
_SCALE = ".scale"
_INT8_MAX = 128
_ROWS_MIN = 64  # a smaller matrix stays in float16
SHIPPED = Path(__file__).parent.parent / "adapters"


def shipped(kind: str) -> Path:
    return SHIPPED / f"{kind}.safetensors"


@dataclass(frozen=True)
class AdapterInfo:
    """`kind`: tagger or infill. `rank`: 0 if whole weights replace the encoder's. `labels`: a tagger's labels, in the
    order of its logits. `steps`: the training steps.

    `documents`, `rounds`: only for a fine-tuned adapter, where `steps` counts the steps of one round.
    """

    kind: str
    encoder_fingerprint: str
    rank: int
    steps: int
    source: str
    licence: str
    labels: tuple[str, ...] = ()
    documents: int = 0
    rounds: int = 0


def save_adapter(path: Path, info: AdapterInfo, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the file atomically."""
    arrays: dict[str, Any] = {}
    for name, tensor in tensors.items():
        whole = tensor.detach().float().cpu()
        if info.rank == 0 and whole.ndim == 2 and len(whole) >= _ROWS_MIN:
            scale = (whole.abs().amax(dim=1, keepdim=True) / 127).clamp_min(torch.finfo(torch.float32).tiny)
            arrays[name] = (whole / scale).round().to(torch.int8).numpy()
            arrays[name + _SCALE] = scale[:, 0].numpy()
        else:
            arrays[name] = whole.to(torch.float16).numpy()
    write_tensors(path, _FORMAT if info.rank else _FORMAT_WHOLE, asdict(info), arrays)


def load_adapter(path: Path, kind: str, encoder_fingerprint: str) -> tuple[AdapterInfo, dict[str, torch.Tensor]]:
    """Return the metadata and float32 tensors of an adapter of that kind, made for that encoder.

    Raises: ValueError for another format, kind or encoder, or for a number that is not finite.
    """
    file_format, facts, arrays = read_tensors(path)
    if file_format not in (_FORMAT, _FORMAT_WHOLE):
        raise ValueError("not an adapter file of a known format")
    info = AdapterInfo(**{**facts, "labels": tuple(facts["labels"])})
    if info.kind != kind:
        raise ValueError(f"the adapter is not a {kind} adapter")
    if info.encoder_fingerprint != encoder_fingerprint:
        raise ValueError("the adapter was made for another encoder")
    scales = {name: arrays.pop(name).astype(np.float32) for name in list(arrays) if name.endswith(_SCALE)}
    floats = [array for array in arrays.values() if array.dtype != np.int8] + [
        _INT8_MAX * scale for scale in scales.values()
    ]
    if not all(np.isfinite(array).all() for array in floats):
        raise ValueError("the adapter holds a number that is not finite")
    tensors = {name: torch.from_numpy(array).float() for name, array in arrays.items()}
    for name, scale in scales.items():
        tensors[name.removesuffix(_SCALE)].mul_(torch.from_numpy(scale)[:, None])
    return info, tensors
