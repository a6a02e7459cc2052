"""The embedded infill model on a CPU: the net of `gpu_workers.models.nets.InfillNet`, run without transformers."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn.functional import gelu, layer_norm, linear

from gpu_workers.models.packed_adapter import packed_adapter


class PackedInfill:
    """Logits of every piece at the requested positions, equal to those of `InfillNet` up to rounding."""

    def __init__(self, path: Path | None, dtype: torch.dtype | None) -> None:
        """See `packed_adapter`."""
        loaded = packed_adapter("infill", path, dtype)
        head = loaded.tensors
        self._bert, self._words, self._eps = loaded.bert, loaded.words, loaded.eps
        self._dense = head["head.dense.weight"], head["head.dense.bias"]
        self._norm = head["head.norm.weight"], head["head.norm.bias"]
        self._bias = head["head.bias"]

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Map `ids` int64 and `mask` `[rows, length]` to logits `[positions, vocabulary]` at the given flat
        positions."""
        (states,) = self._bert([(ids, mask.bool())])
        chosen = states.reshape(-1, states.shape[-1])[positions]
        wide = gelu(linear(chosen, *self._dense))
        return linear(layer_norm(wide, wide.shape[1:], *self._norm, eps=self._eps), self._words, self._bias)
