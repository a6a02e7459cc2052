"""The shipped tagger in 8-bit integers: `gpu_workers.models.packed_tagger.PackedTagger` on `IntegerBert`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from gpu_workers.models.adapter_file import shipped
from gpu_workers.models.integer.bert import GRID, IntegerBert
from gpu_workers.models.integer.layers import StepsFile
from gpu_workers.models.integer.products import WAYS
from gpu_workers.models.packed_adapter import adapter_weights

STEPS = shipped("integer_tagger")
_HEAD_GRID = 2**16  # of a weight of the head
_HEAD_MAX = 2**24


class IntegerTagger:
    """Logits of the labels for every piece. Guarantee: those of a window depend on that window alone, on every
    processor (`IntegerBert`; the head's sums are exact). `info`: the adapter's metadata."""

    def __init__(self, steps: Path = STEPS, way: str = "integers") -> None:
        """`way`: of `WAYS`. Raises ValueError for steps that were made for another tagger."""
        file = StepsFile.load(steps)
        if file.adapter_digest != adapter_digest(shipped("tagger")):
            raise ValueError("the steps were made for another tagger")
        own = adapter_weights("tagger", None, torch.float32)
        weights = {name: tensor.numpy() for name, tensor in own.bert.items()}
        self.info = own.info
        self._bert = IntegerBert(weights, own.config, file, way=WAYS[way], kinds=own.tensors["case"].numpy())
        self._head = (own.tensors["head.weight"].double() * _HEAD_GRID).round().T  # whole numbers
        if float(self._head.abs().max()) > _HEAD_MAX:
            raise ValueError("the head of this tagger is too large for integers")
        self._bias = own.tensors["head.bias"]

    def __call__(self, ids: torch.Tensor, cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map `ids`, `cases` int64 and `mask` `[rows, length]` to logits `[rows, length, labels]`, float32. The padding
        is not computed, and its logits are 0."""
        seen = mask.bool().numpy()
        states = self._bert.states(ids.numpy()[seen], seen.sum(axis=1).tolist(), cases.numpy()[seen])
        # whole numbers up to 2^20 and 2^24: float64 holds their products and sums
        sums = torch.from_numpy(states).double() @ self._head
        logits = torch.zeros((*seen.shape, len(self._bias)))
        logits[torch.from_numpy(seen)] = (sums / (GRID * _HEAD_GRID)).float() + self._bias
        return logits


def adapter_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
