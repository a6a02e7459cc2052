"""The file of a privately fine-tuned classifier: safetensors, with its description and privacy cost in the metadata.

It holds the optimised tensors (`lora`: adapter and head; `rgp`: the encoder's linear layers and the head; `full`:
everything except the embeddings), in float32. It fits only the encoder whose fingerprint it names. No pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from core.finetune.inputs import Hyperparameters
from gpu_workers.finetune.base import Base, load_base
from gpu_workers.finetune.classifier import Classifier
from gpu_workers.finetune.methods import Method, prepare
from gpu_workers.models.tensor_file import read_tensors, write_tensors

_FORMAT = "privacy-gateway/classifier/1"
_HYPERPARAMETERS = tuple(field.name for field in fields(Hyperparameters))


@dataclass(frozen=True)
class ClassifierInfo:
    """`labels` in the order of the logits; `epsilon` is the certified one, add-remove. `hyperparameters` as they were
    used: with the method's learning rate where none was given, and rank 0 for `full`."""

    method: str
    base: str
    base_fingerprint: str
    labels: tuple[str, ...]
    pairs: bool
    hyperparameters: Hyperparameters
    rows: int
    batch: int
    steps: int
    clip_norm: float
    noise_multiplier: float
    epsilon: float
    delta: float
    sampling: str = "poisson"  # `random_allocation`: each row in one of round(rows / batch) steps of each epoch


def save_classifier(path: Path, info: ClassifierInfo, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the file atomically."""
    arrays = {name: tensor.detach().float().cpu().numpy() for name, tensor in tensors.items()}
    facts = asdict(info)
    write_tensors(path, _FORMAT, facts | facts.pop("hyperparameters"), arrays)


def load_classifier(
    path: Path, base_path: Path | None = None, *, device: torch.device | str = "cpu"
) -> tuple[ClassifierInfo, Base, Classifier]:
    """Load a file's classifier on its encoder (the bundled one by default), in evaluation mode.

    Raises: ValueError for a file of another format, for another encoder, or for a number that is not finite.
    """
    info, tensors = _read(path)
    place = torch.device(device)
    base = load_base(base_path, device=place, pieces_max=info.hyperparameters.pieces_max)
    if base.fingerprint != info.base_fingerprint:
        raise ValueError("the classifier was made for another encoder")
    model = Classifier(base, labels=len(info.labels), pairs=info.pairs)
    trained = prepare(model, Method(info.method), rank=info.hyperparameters.rank)
    shapes = {name: parameter.shape for name, parameter in trained.optimised.items()}
    if shapes != {name: tensor.shape for name, tensor in tensors.items()}:
        raise ValueError("the tensors do not match the classifier")
    with torch.no_grad():
        for name, parameter in trained.optimised.items():
            parameter.copy_(tensors[name])
    return info, base, model.eval()


def _read(path: Path) -> tuple[ClassifierInfo, dict[str, torch.Tensor]]:
    kind, facts, arrays = read_tensors(path)
    if kind != _FORMAT:
        raise ValueError("not a classifier file of a known format")
    try:
        used = Hyperparameters(**{name: facts.pop(name) for name in _HYPERPARAMETERS if name in facts})
        info = ClassifierInfo(**{**facts, "labels": tuple(facts["labels"]), "hyperparameters": used})
        Method(info.method)
    except (ValueError, LookupError, TypeError):
        raise ValueError("the file's metadata does not describe a classifier") from None
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ValueError("the classifier holds a number that is not finite")
    return info, tensors
