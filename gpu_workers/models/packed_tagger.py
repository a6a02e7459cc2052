"""The embedded tagger on a CPU in floating point: `gpu_workers.models.nets.TaggerNet`, run without transformers."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import torch
from torch.nn.functional import embedding, linear

from gpu_workers.models.packed_adapter import packed_adapter
from gpu_workers.models.packed_bert import Group

_STEP = 8  # the padded length of a row is a multiple: the first use of a shape takes about 3 ms


class PackedTagger:
    """Logits of the labels for every piece, equal to those of `TaggerNet` up to rounding. `info`: the adapter's
    metadata."""

    def __init__(self, path: Path | None, dtype: torch.dtype | None) -> None:
        """See `packed_adapter`."""
        loaded = packed_adapter("tagger", path, dtype)
        self.info = loaded.info
        self._bert = loaded.bert
        self._case = loaded.tensors["case"]
        self._head = loaded.tensors["head.weight"], loaded.tensors["head.bias"]

    def __call__(self, ids: torch.Tensor, cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map `ids`, `cases` int64 and `mask` `[rows, length]` to logits `[rows, length, labels]`. Most of the padding
        is not computed, and its logits are 0."""
        lengths = [min(-(-int(size) // _STEP) * _STEP, ids.shape[1]) for size in mask.sum(dim=1)]
        groups: list[Group] = []
        added = []
        first = 0
        for length, rows in groupby(lengths):
            own = slice(first, first := first + len(list(rows)))
            groups.append((ids[own, :length], mask[own, :length].bool()))
            added.append(embedding(cases[own, :length].reshape(-1), self._case))
        blocks = self._bert(groups, torch.cat(added))
        logits = torch.zeros((*ids.shape, len(self._head[1])), dtype=self._head[1].dtype)
        first = 0
        for block in blocks:
            logits[first : first + len(block), : block.shape[1]] = linear(block, *self._head)
            first += len(block)
        return logits
