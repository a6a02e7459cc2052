"""An adapter on the bundled encoder, run on a CPU without transformers.

Importing transformers takes longer than all other steps of a worker's start together, and `PackedBert` reads the
weights only once for a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from gpu_workers.models.adapter_file import SHIPPED, AdapterInfo, load_adapter
from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_weights
from gpu_workers.models.lora import REPLACED, merged
from gpu_workers.models.packed_bert import Dense, LinearOf, PackedBert
from gpu_workers.models.precision import fastest_dtype


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


def packed_adapter(
    kind: str, path: Path | None, dtype: torch.dtype | None, linear_of: LinearOf = Dense
) -> PackedAdapter:
    """Load the adapter of that kind at `path`, or the shipped one by default.

    `dtype`: the processor's fastest by default; sums of weights are computed in float32. `linear_of`: see `PackedBert`.
    Raises: ValueError for a file that is not such an adapter.
    """
    info, tensors = load_adapter(path or SHIPPED / f"{kind}.safetensors", kind, bundled_fingerprint())
    weights, config = bundled_weights()
    own = dtype or fastest_dtype(torch.device("cpu"))
    whole = {name: tensor.to(own) for name, tensor in merged(weights, tensors).items()}
    extra = {name: tensor.to(own) for name, tensor in tensors.items() if not name.startswith(("lora.", REPLACED))}
    bert = PackedBert(whole, config, linear_of)
    return PackedAdapter(info, bert, whole["embeddings.word_embeddings.weight"], extra, float(config["layer_norm_eps"]))
