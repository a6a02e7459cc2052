"""Serve an adapter of the bundled BERT encoder: the weights of the encoder with the adapter added to them.

An adapter of rank 0 brings weights that replace the encoder's. A low-rank one is added: a served model holds the sum
W + up·down in place of W, so an adapter costs nothing at serving time. Training uses peft
(`gpu_workers.models.trainable_adapter`). This module does not import peft or transformers, because a worker on a
processor starts without them (docs/adr/0034-tagger-and-adapters.md).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

REPLACED = "bert."  # before the name of a weight of the encoder that an adapter replaces
_LAYERS = "encoder.layer."


def merged(weights: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of a `BertModel`, by name, with the adapter `tensors` in every linear layer, in float32.

    `tensors`: as in an adapter's file, `lora.{layer}.up` `[out, rank]` and `lora.{layer}.down` `[rank, in]`, or
    `bert.{name}`, which replaces a weight.

    Raises: KeyError if the adapter lacks a linear layer of the encoder; RuntimeError if a shape does not fit.
    """
    whole = {name: tensors.get(REPLACED + name, tensor).float() for name, tensor in weights.items()}
    if any(whole[name].shape != tensor.shape for name, tensor in weights.items()):
        raise RuntimeError("a weight of the adapter has another shape than the encoder's")
    for name, tensor in weights.items():
        if REPLACED + name in tensors:
            continue
        if name.startswith(_LAYERS) and tensor.ndim == 2:
            layer = "lora." + name.removeprefix(_LAYERS).removesuffix(".weight")
            whole[name] = whole[name] + tensors[f"{layer}.up"].float() @ tensors[f"{layer}.down"].float()
    return whole
