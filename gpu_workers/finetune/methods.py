"""The three methods to train a classifier privately: which tensors get per-row gradients, and which are optimised.

* `lora`: low-rank adapters (peft) on the encoder's attention, and the head; the rest is frozen.
* `rgp`: all linear layers of the encoder through low-rank carriers, and the head (`gpu_workers.finetune.rgp`).
* `full`: everything except the embeddings. (Position ids are one row for a whole batch, so they have no per-row
  gradients.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar

from torch import nn

from core.errors import InvalidInput
from core.finetune.inputs import RANK
from gpu_workers.finetune.classifier import Classifier
from gpu_workers.finetune.gradients import Tensors
from gpu_workers.finetune.rgp import Rgp

_ATTENTION = ("query", "value")  # the names in BERT and RoBERTa


class Method(StrEnum):
    LORA = "lora"
    RGP = "rgp"
    FULL = "full"


class Trained(ABC):
    """`own`: the tensors with per-row gradients. `optimised`: the tensors that the optimiser updates and a file
    holds."""

    rate: ClassVar[float]  # of Adam; a rate at which the method has been shown to learn

    own: dict[str, nn.Parameter]
    optimised: dict[str, nn.Parameter]

    def begin(self, step: int) -> None:  # noqa: B027 - most methods have nothing to prepare
        """Called before a step's rows are read."""

    @abstractmethod
    def gradients(self, released: Tensors) -> Tensors:
        """Derive the gradients of `optimised` from the released ones of `own`: post-processing."""


class _Direct(Trained):
    """The tensors with per-row gradients are the optimised ones."""

    def gradients(self, released: Tensors) -> Tensors:
        return released


class Lora(_Direct):
    rate = 5e-3

    def __init__(self, model: Classifier, *, rank: int) -> None:
        from peft import LoraConfig, inject_adapter_in_model

        model.backbone.requires_grad_(False)
        config = LoraConfig(
            r=rank, lora_alpha=2 * rank, lora_dropout=0.0, bias="none", target_modules=_attention(model.backbone)
        )
        inject_adapter_in_model(config, model.backbone)
        self.own = self.optimised = _trained(model)


class Full(_Direct):
    rate = 2e-4

    def __init__(self, model: Classifier) -> None:
        model.backbone.requires_grad_(True)
        for name, parameter in model.backbone.named_parameters():
            if "embeddings" in name:
                parameter.requires_grad_(False)
        self.own = self.optimised = _trained(model)


class Reparametrised(Trained):
    rate = 5e-4

    def __init__(self, model: Classifier, *, rank: int) -> None:
        self._rgp = Rgp(model.backbone, rank=rank)
        self._head = {f"head.{name}": parameter for name, parameter in model.head.named_parameters()}
        self.own = {**self._rgp.carriers, **self._head}
        self.optimised = {**self._rgp.weights, **self._head}

    def begin(self, step: int) -> None:
        self._rgp.new_carriers(step)

    def gradients(self, released: Tensors) -> Tensors:
        return {**self._rgp.projected(released), **{name: released[name] for name in self._head}}


def prepare(model: Classifier, method: Method, *, rank: int = RANK) -> Trained:
    """Convert the classifier to the method's form, in place. `rank`: of adapters or carriers.

    Raises: InvalidInput for a model without layers of known names.
    """
    if method is Method.LORA:
        return Lora(model, rank=rank)
    return Full(model) if method is Method.FULL else Reparametrised(model, rank=rank)


def _trained(model: Classifier) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _attention(backbone: nn.Module) -> list[str]:
    """The layers that compute queries and values, by the last part of their names."""
    ends = {name.rpartition(".")[2] for name, module in backbone.named_modules() if isinstance(module, nn.Linear)}
    if not ends.issuperset(_ATTENTION):
        raise InvalidInput("The model has no attention layers of known names.", field="model")
    return list(_ATTENTION)
