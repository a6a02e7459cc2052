"""The embedded tagger for a processor: the net of `gpu_workers.models.nets.TaggerNet`, run without transformers."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn.functional import embedding, linear

from gpu_workers.models.packed_adapter import packed_adapter


class PackedTagger:
    """Logits of a label for every piece, as `TaggerNet` gives them up to rounding. `info`: what the adapter says."""

    def __init__(self, path: Path | None, dtype: torch.dtype | None) -> None:
        """As `packed_adapter`."""
        loaded = packed_adapter("tagger", path, dtype)
        self.info = loaded.info
        self._bert = loaded.bert
        self._case = loaded.tensors["case"]
        self._head = loaded.tensors["head.weight"], loaded.tensors["head.bias"]

    def __call__(self, ids: torch.Tensor, cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`ids`, `cases` int64 and `mask` `[rows, length]` to logits `[rows, length, labels]`."""
        (states,) = self._bert([(ids, mask.bool())], embedding(cases.reshape(-1), self._case))
        return linear(states, *self._head)
