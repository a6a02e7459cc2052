"""Train a low-rank adapter of a BERT encoder with peft, and name its tensors as an adapter's file does.

The adapter targets the weight of each linear layer (peft's `target_parameters`), so that peft forms W + up·down before
the product with the tokens. For a model this small, this costs less than the two thin products beside every layer that
peft computes for target modules (docs/adr/0034-tagger-and-adapters.md).
"""

from __future__ import annotations

from typing import Any

from torch import nn

_LINEAR = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
_NAME = "default"  # peft's name of the only adapter


def attach(model: Any, rank: int) -> None:
    """Freeze a transformers `BertModel` and put a trainable adapter on each linear layer of its encoder.

    The adapted model initially equals the model. The numbers of `down` have variance 1 / in, three times that of peft's
    own initialisation; the learning rates of the trainings are tuned for it.
    """
    from peft import LoraConfig, inject_adapter_in_model

    model.requires_grad_(False)
    weights = [f"{path}.weight" for path in _LINEAR]
    inject_adapter_in_model(
        # lora_alpha / r is the factor of up·down.
        LoraConfig(r=rank, lora_alpha=rank, target_modules=[], target_parameters=weights),
        model,
        adapter_name=_NAME,
    )
    for name, parameter in adapter_parameters(model).items():
        if name.endswith(".down"):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)


def adapter_parameters(model: Any) -> dict[str, nn.Parameter]:
    """The trained part of a model that `attach` has prepared, by its name in an adapter's file."""
    tensors: dict[str, nn.Parameter] = {}
    for number, layer in enumerate(model.encoder.layer):
        for path in _LINEAR:
            adapted = layer.get_submodule(path)
            tensors[f"lora.{number}.{path}.up"] = adapted.lora_B[_NAME].weight
            tensors[f"lora.{number}.{path}.down"] = adapted.lora_A[_NAME].weight
    return tensors
