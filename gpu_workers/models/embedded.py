"""Shared by the two embedded models: the bundled encoder with a merged adapter, and its vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from tokenizers import Tokenizer

from gpu_workers.models.adapter_file import AdapterInfo, load_adapter, shipped
from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.lora import merged
from gpu_workers.models.nets import InfillNet, TaggerNet, backbone
from gpu_workers.models.precision import fastest_dtype
from gpu_workers.models.pretrained import Vocabulary, plain

_WINDOW = 126  # the adapters were trained on rows of this length

Net = TypeVar("Net", TaggerNet, InfillNet)


def embedded_vocabulary() -> Vocabulary:
    """Return the vocabulary of the bundled encoder."""
    tokenizer = plain(Tokenizer.from_file(str(bundled_path() / "tokenizer.json")))
    ids = tokenizer.get_vocab()
    return Vocabulary(tokenizer, ids["[CLS]"], ids["[SEP]"], ids["[PAD]"], ids["[MASK]"], _WINDOW)


def load_embedded(
    kind: str,
    make: Callable[[Any, AdapterInfo], Net],
    path: Path | None,
    *,
    device: torch.device,
    dtype: torch.dtype | None,
) -> tuple[AdapterInfo, Net]:
    """Load the adapter of that kind (the shipped one by default) on the bundled encoder, ready to serve.

    `make`: builds the network around the merged encoder. `dtype`: the device's fastest by default. Sums of weights are
    computed in float32.

    Raises: ValueError for a file that is not such an adapter.
    """
    file = path or shipped(kind)
    info, tensors = load_adapter(file, kind, bundled_fingerprint())
    bert = backbone()
    bert.load_state_dict(merged(bert.state_dict(), tensors))
    net = make(bert, info)
    with torch.no_grad():
        for name, parameter in net.own_parameters().items():
            parameter.copy_(tensors[name])
    return info, net.eval().requires_grad_(False).to(device, dtype or fastest_dtype(device))
