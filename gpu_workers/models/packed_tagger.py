"""The embedded tagger for a processor: the net of `gpu_workers.models.nets.TaggerNet`, run without transformers.

Importing transformers takes longer than all else that a worker does at its start; and `PackedBert` reads the weights
once for a batch.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn.functional import embedding, linear

from gpu_workers.encoder import fastest_dtype, weights_fingerprint
from gpu_workers.encoder_model import bundled_path, bundled_weights
from gpu_workers.models import lora
from gpu_workers.models.adapter_file import SHIPPED, AdapterInfo, load_adapter
from gpu_workers.packed_bert import PackedBert


class PackedTagger:
    """Logits of a label for every piece, as `TaggerNet` gives them up to rounding."""

    def __init__(self, path: Path | None, dtype: torch.dtype | None) -> None:
        """`path`: an adapter, the shipped one by default. `dtype`: the processor's fastest by default; sums of weights
        are formed in float32.

        Raises: ValueError for a file that is no such adapter.
        """
        file = path or SHIPPED / "tagger.safetensors"
        self.info: AdapterInfo
        self.info, tensors = load_adapter(file, "tagger", weights_fingerprint(bundled_path()))
        weights, config = bundled_weights()
        own = dtype or fastest_dtype(torch.device("cpu"))
        whole = {name: tensor.to(own) for name, tensor in lora.merged(weights, tensors).items()}
        self._bert = PackedBert(whole, config)
        self._case = tensors["case"].to(own)
        self._head = tensors["head.weight"].to(own), tensors["head.bias"].to(own)

    def __call__(self, ids: torch.Tensor, cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`ids`, `cases` int64 and `mask` `[rows, length]` to logits `[rows, length, labels]`."""
        (states,) = self._bert([(ids, mask.bool())], embedding(cases.reshape(-1), self._case))
        return linear(states, *self._head)
