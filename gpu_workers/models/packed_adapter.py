"""An adapter on the bundled encoder, run on a CPU without transformers.

Importing transformers takes longer than all other steps of a worker's start together, and `PackedBert` reads the
weights only once for a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpu_workers.models.adapter_file import AdapterInfo, load_adapter, shipped
from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_weights
from gpu_workers.models.lora import REPLACED, merged
from gpu_workers.models.packed_bert import PackedBert
from gpu_workers.models.precision import fastest_dtype


@dataclass(frozen=True)
class AdapterWeights:
    """`bert`: the weights of the encoder with the adapter merged into them, by the names of a transformers `BertModel`.
    `config`: of that encoder. `tensors`: the adapter's other tensors. All are of one type."""

    info: AdapterInfo
    bert: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class PackedAdapter:
    """`bert` with the adapter merged into it. `tensors`: the adapter's other tensors, all of one type.

    `words`: the encoder's word embeddings `[vocabulary, d]`. `eps`: the epsilon of its layer norms.
    """

    info: AdapterInfo
    bert: PackedBert
    words: torch.Tensor
    tensors: Mapping[str, torch.Tensor]
    eps: float


def adapter_weights(kind: str, path: Path | None, dtype: torch.dtype) -> AdapterWeights:
    """Load the adapter of that kind at `path`, or the shipped one by default. Sums of weights are computed in float32.

    Raises: ValueError for a file that is not such an adapter.
    """
    info, tensors = load_adapter(path or shipped(kind), kind, bundled_fingerprint())
    weights, config = bundled_weights()
    whole = {name: tensor.to(dtype) for name, tensor in merged(weights, tensors).items()}
    extra = {name: tensor.to(dtype) for name, tensor in tensors.items() if not name.startswith(("lora.", REPLACED))}
    return AdapterWeights(info, whole, config, extra)


def packed_adapter(kind: str, path: Path | None, dtype: torch.dtype | None) -> PackedAdapter:
    """`adapter_weights` as a net. `dtype`: the processor's fastest by default."""
    own = adapter_weights(kind, path, dtype or fastest_dtype(torch.device("cpu")))
    words, eps = own.bert["embeddings.word_embeddings.weight"], float(own.config["layer_norm_eps"])
    return PackedAdapter(own.info, PackedBert(own.bert, own.config), words, own.tensors, eps)
