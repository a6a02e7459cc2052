"""The file of a shipped adapter: safetensors, float16, with a description in the metadata. No pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from gpu_workers.models.tensor_file import read_tensors, write_tensors

_FORMAT = "privacy-gateway/adapter/1"
SHIPPED = Path(__file__).parent.parent / "adapters"


@dataclass(frozen=True)
class AdapterInfo:
    """`kind`: tagger or infill. `labels`: a tagger's labels, in the order of its logits. `steps`: the training steps.

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
    half = {name: tensor.detach().to(torch.float16).cpu().numpy() for name, tensor in tensors.items()}
    write_tensors(path, _FORMAT, asdict(info), half)


def load_adapter(path: Path, kind: str, encoder_fingerprint: str) -> tuple[AdapterInfo, dict[str, torch.Tensor]]:
    """Return the metadata and float32 tensors of an adapter of that kind, made for that encoder.

    Raises: ValueError for another format, kind or encoder, or for a number that is not finite.
    """
    file_format, facts, arrays = read_tensors(path)
    if file_format != _FORMAT:
        raise ValueError("not an adapter file of a known format")
    info = AdapterInfo(**{**facts, "labels": tuple(facts["labels"])})
    if info.kind != kind:
        raise ValueError(f"the adapter is not a {kind} adapter")
    if info.encoder_fingerprint != encoder_fingerprint:
        raise ValueError("the adapter was made for another encoder")
    tensors = {name: torch.from_numpy(array).float() for name, array in arrays.items()}
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ValueError("the adapter holds a number that is not finite")
    return info, tensors
