"""The embedded infill for a processor: the net of `gpu_workers.models.nets.InfillNet`, run without transformers.

Importing transformers takes longer than all else that a worker does at its start; and `PackedBert` reads the weights
once for a batch.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn.functional import gelu, layer_norm, linear

from gpu_workers.encoder import fastest_dtype, weights_fingerprint
from gpu_workers.encoder_model import bundled_path, bundled_weights
from gpu_workers.models import lora
from gpu_workers.models.adapter_file import SHIPPED, load_adapter
from gpu_workers.packed_bert import PackedBert


class PackedInfill:
    """Logits of every piece at the places asked about, as `InfillNet` gives them up to rounding."""

    def __init__(self, path: Path | None, dtype: torch.dtype | None) -> None:
        """`path`: an adapter, the shipped one by default. `dtype`: the processor's fastest by default; sums of weights
        are formed in float32.

        Raises: ValueError for a file that is no such adapter.
        """
        file = path or SHIPPED / "infill.safetensors"
        _, tensors = load_adapter(file, "infill", weights_fingerprint(bundled_path()))
        weights, config = bundled_weights()
        own = dtype or fastest_dtype(torch.device("cpu"))
        whole = {name: tensor.to(own) for name, tensor in lora.merged(weights, tensors).items()}
        self._bert = PackedBert(whole, config)
        self._words = whole["embeddings.word_embeddings.weight"]
        head = {name: tensor.to(own) for name, tensor in tensors.items() if name.startswith("head.")}
        self._dense = head["head.dense.weight"], head["head.dense.bias"]
        self._norm = head["head.norm.weight"], head["head.norm.bias"]
        self._bias = head["head.bias"]
        self._eps = float(config["layer_norm_eps"])

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
        """`ids` int64 and `mask` `[rows, length]` to logits `[asked, vocabulary]` at the asked flat positions."""
        (states,) = self._bert([(ids, mask.bool())])
        chosen = states.reshape(-1, states.shape[-1])[asked]
        wide = gelu(linear(chosen, *self._dense))
        return linear(layer_norm(wide, wide.shape[1:], *self._norm, eps=self._eps), self._words, self._bias)
