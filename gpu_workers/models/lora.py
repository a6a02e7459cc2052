"""Serve a low-rank adapter of the bundled BERT encoder: the weights of the encoder with the adapter added to them.

A served model holds the sum W + up·down in place of W, so an adapter costs nothing at serving time. Training uses peft
(`gpu_workers.models.trainable_adapter`). This module does not import peft or transformers, because a worker on a
processor starts without them (docs/adr/0025-lora.md).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

_LAYERS = "encoder.layer."


def merged(weights: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of a `BertModel`, by name, with the adapter `tensors` added to every linear layer, in float32.

    `tensors`: as in an adapter's file, `lora.{layer}.up` `[out, rank]` and `lora.{layer}.down` `[rank, in]`.

    Raises: KeyError if the adapter lacks a linear layer of the encoder; RuntimeError if a shape does not fit.
    """
    whole = {name: tensor.float() for name, tensor in weights.items()}
    for name, tensor in weights.items():
        if name.startswith(_LAYERS) and tensor.ndim == 2:
            layer = "lora." + name.removeprefix(_LAYERS).removesuffix(".weight")
            whole[name] = whole[name] + tensors[f"{layer}.up"].float() @ tensors[f"{layer}.down"].float()
    return whole
