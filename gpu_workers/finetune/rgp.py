"""Reparametrised gradient perturbation: a layer's gradient through two low-rank carriers (Yu et al. 2021; EW-Tune).

In a step, W is written as L R + (W - L R): L `[out, rank]` with orthonormal columns, R `[rank, in]` with orthonormal
rows, the rest fixed. Only L and R (and the head) have gradients. These are clipped together and get noise, and

    dW = dL R + L dR - L L^T dL R

is the part of the gradient of W that remains after projection on the columns of L and the rows of R (EW-Tune's
Algorithm 1 prints the last term without its first L). An ordinary optimiser updates W with it.

The carriers use nothing private: they come from one power iteration, from a random start, on W itself in the first
steps and on W - W_0 afterwards, where W_0 is public and W results from the noisy releases (their Algorithm 2). They
read no batch, so they are post-processing and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from gpu_workers.finetune.gradients import Tensors

WARMUP_STEPS = 10  # before, W - W_0 is mostly noise


class RgpLinear(nn.Module):
    """A linear layer that trains through its carriers. In evaluation mode it is the original layer."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        rank = min(rank, base.in_features, base.out_features)
        self.weight, self.bias = base.weight.requires_grad_(False), base.bias
        if self.bias is not None:
            self.bias.requires_grad_(False)
        self.first = base.weight.detach().clone()
        self.rest = base.weight.detach().clone()
        self.left = nn.Linear(rank, base.out_features, bias=False).to(self.weight)
        self.right = nn.Linear(base.in_features, rank, bias=False).to(self.weight)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return nn.functional.linear(inputs, self.weight, self.bias)
        carried: torch.Tensor = self.left(self.right(inputs))
        return nn.functional.linear(inputs, self.rest, self.bias) + carried

    @torch.no_grad()
    def new_carriers(self, step: int) -> None:
        """Compute the carriers for this step. W does not change."""
        matrix = self.weight if step < WARMUP_STEPS else self.weight - self.first
        start = torch.randn(self.right.weight.shape, device=matrix.device, dtype=matrix.dtype)
        left = torch.linalg.qr(matrix @ start.T)[0]
        right = torch.linalg.qr(matrix.T @ left)[0].T
        self.left.weight.copy_(left)
        self.right.weight.copy_(right)
        torch.sub(self.weight, left @ right, out=self.rest)

    @torch.no_grad()
    def projected(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """The gradient of W that results from the carriers' (noisy) gradients."""
        column, row = self.left.weight, self.right.weight
        return (left - column @ (column.T @ left)) @ row + column @ right


class Rgp:
    """The converted linear layers of an encoder. `carriers` have per-row gradients; `weights` are optimised."""

    def __init__(self, backbone: nn.Module, *, rank: int) -> None:
        backbone.requires_grad_(False)
        self._layers: dict[str, RgpLinear] = {}
        for name, parent, attribute in list(_linear_layers(backbone)):
            layer = RgpLinear(getattr(parent, attribute), rank)
            setattr(parent, attribute, layer)
            self._layers[name] = layer

    @property
    def carriers(self) -> dict[str, nn.Parameter]:
        found: dict[str, nn.Parameter] = {}
        for name, layer in self._layers.items():
            found[f"{name}.left"] = layer.left.get_parameter("weight")
            found[f"{name}.right"] = layer.right.get_parameter("weight")
        return found

    @property
    def weights(self) -> dict[str, nn.Parameter]:
        return {f"{name}.weight": layer.get_parameter("weight") for name, layer in self._layers.items()}

    def new_carriers(self, step: int) -> None:
        for layer in self._layers.values():
            layer.new_carriers(step)

    def projected(self, released: Mapping[str, torch.Tensor]) -> Tensors:
        """The gradients of the weights, computed from a release that names the carriers."""
        return {
            f"{name}.weight": layer.projected(released[f"{name}.left"], released[f"{name}.right"])
            for name, layer in self._layers.items()
        }


def _linear_layers(backbone: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    for name, parent in backbone.named_modules():
        for attribute, child in parent.named_children():
            if type(child) is nn.Linear:
                yield f"{name}.{attribute}" if name else attribute, parent, attribute
