"""Low-rank adapters of a BERT encoder, as sums of weights: W + up·down in place of W.

The sum is formed before the product with the tokens. For a model this small that costs less than two thin products
beside every layer, and a served model holds the sum alone: an adapter costs nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

_LINEAR = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


class LoraLinear(nn.Module):
    """A linear layer whose weight is a frozen matrix plus a trained one of low rank; at first equal to the frozen."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(inputs, self.base.weight + self.up @ self.down, self.base.bias)


def _layers(model: Any) -> Iterator[tuple[str, nn.Module, str]]:
    """(adapter's name, parent module, attribute) of every linear layer of the encoder."""
    for number, layer in enumerate(model.encoder.layer):
        for path in _LINEAR:
            parent, _, attribute = path.rpartition(".")
            yield f"lora.{number}.{path}", layer.get_submodule(parent), attribute


def attach(model: Any, rank: int) -> None:
    """Freeze a transformers `BertModel` and put a trainable adapter on each linear layer of its encoder."""
    model.requires_grad_(False)
    for _, parent, attribute in list(_layers(model)):
        setattr(parent, attribute, LoraLinear(getattr(parent, attribute), rank))


def adapter_parameters(model: Any) -> dict[str, nn.Parameter]:
    """The trained part of a model that `attach` has prepared, by its name in an adapter's file."""
    tensors: dict[str, nn.Parameter] = {}
    for name, parent, attribute in _layers(model):
        layer = getattr(parent, attribute)
        tensors[f"{name}.up"], tensors[f"{name}.down"] = layer.up, layer.down
    return tensors


def merged(weights: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A `BertModel`'s weights, by name, with an adapter added to them, in float32.

    Raises: KeyError if one lacks a layer of the other; RuntimeError if a shape does not fit.
    """
    whole = {name: tensor.float() for name, tensor in weights.items()}
    for name, up in tensors.items():
        layer, _, part = name.removeprefix("lora.").rpartition(".")
        if name.startswith("lora.") and part == "up":
            target = f"encoder.layer.{layer}.weight"
            whole[target] = whole[target] + up.float() @ tensors[f"lora.{layer}.down"].float()
    return whole


@torch.no_grad()
def merge(model: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """Add an adapter to the weights of a plain `BertModel`, in place. Sums are formed in float32.

    Raises: KeyError if the adapter lacks a layer; RuntimeError if a shape does not fit.
    """
    for name, parent, attribute in _layers(model):
        weight = getattr(parent, attribute).weight
        delta = tensors[f"{name}.up"].float() @ tensors[f"{name}.down"].float()
        weight.copy_(weight.float() + delta)
