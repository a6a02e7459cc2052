"""The private gradient: rows' own gradients, clipped, summed, noised, over the expected batch.

Guarantee: `PrivateGradient.step` releases, for one logical batch, a vector that is the Gaussian mechanism at the plan's
noise multiplier: adding or removing one row moves the clipped sum by at most the clipping norm in l2, over all tensors
together. With a batch by `core.finetune.poisson` that is one step of the plan. Assumptions: real arithmetic (rows are
clipped a thousandth shorter than the noise is made for, which is room for float32), and a row's gradient depends on
that row and on what was released before, which `base` and `batches` see to. A gradient that is not finite counts as
zero. An empty batch is a step as well: its release is noise alone.

Nothing else of a step leaves this module: no loss, no norm, no size of a batch.

Rows' own gradients are kept by Opacus in hooks mode, for linear layers and layer norms. (Its ghost mode clips by a loss
that it hands out, and clips nothing where another one is used.)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import torch
from opacus.grad_sample import GradSampleHooks
from torch import nn

from core.finetune.noise import noisy_sum
from core.mechanisms.vectors.noise import noise_generator
from gpu_workers.finetune.batches import Batch

ROUNDING_ROOM = 2.0**-10

Tensors = dict[str, torch.Tensor]


class PrivateGradient:
    """`model` maps a batch's parts to logits; `parameters`, by name, are those that it trains, all of them."""

    def __init__(
        self,
        model: nn.Module,
        parameters: Mapping[str, nn.Parameter],
        *,
        clip_norm: float,
        noise_multiplier: float,
        expected_batch: int,
    ) -> None:
        """Raises: ValueError if the model trains another set of parameters, or has a layer that mixes rows."""
        trained = {parameter for parameter in model.parameters() if parameter.requires_grad}
        if trained != set(parameters.values()) or not parameters:
            raise ValueError("the parameters are not those that the model trains")
        self._model, self._parameters = model, dict(parameters)
        self._clip_norm, self._deviation = clip_norm, noise_multiplier * clip_norm
        self._expected_batch = expected_batch
        model.train()
        try:
            self._hooks = GradSampleHooks(model, loss_reduction="sum")
        except NotImplementedError:
            raise ValueError("the model has a trained layer whose gradients are not a row's own") from None

    def close(self) -> None:
        """Takes the hooks off the model."""
        self._hooks.cleanup()

    def step(self, batches: Iterable[Batch]) -> Tensors:
        """The noised mean gradient of one logical batch, given in physical parts; float32, on the model's device.

        The mean is over the *expected* size of a batch; the realised one is private.
        """
        total = {name: torch.zeros_like(parameter) for name, parameter in self._parameters.items()}
        for batch in batches:
            for name, part in clipped_sum(self.own(batch), clip_norm=self._clip_norm).items():
                total[name] += part
        return self._released(total)

    def own(self, batch: Batch) -> Tensors:
        """Each row's own gradient of its loss, `[rows, ...]` by parameter. Private: for clipping, and for tests."""
        self._model.train()
        loss = nn.functional.cross_entropy(self._model(batch.parts), batch.labels, reduction="sum")
        with warnings.catch_warnings():
            # the first layers' inputs need no gradient; their weights' gradients come all the same
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            loss.backward()  # type: ignore[no-untyped-call]
        found = {}
        for name, parameter in self._parameters.items():
            own = parameter.grad_sample  # type: ignore[attr-defined]
            if not isinstance(own, torch.Tensor) or len(own) != len(batch.labels):
                raise RuntimeError("a parameter kept no gradient of each row")
            found[name] = own
            parameter.grad_sample = None  # type: ignore[attr-defined]
            parameter.grad = None
        return found

    def _released(self, total: Tensors) -> Tensors:
        generator = noise_generator()
        released = {}
        for name, tensor in total.items():
            exact = tensor.double().cpu().numpy()
            noisy = torch.from_numpy(noisy_sum(exact, deviation=self._deviation, generator=generator))
            released[name] = noisy.to(tensor.device) / self._expected_batch
        return released


@torch.no_grad()
def clipped_sum(own: Tensors, *, clip_norm: float) -> Tensors:
    """The sum over rows of their gradients, each shortened to at most `clip_norm`, over all tensors together."""
    squares = torch.stack([tensor.flatten(1).square().sum(dim=1, dtype=torch.float64) for tensor in own.values()])
    norms = squares.sum(dim=0).sqrt()
    finite = norms.isfinite()
    limit = clip_norm * (1 - ROUNDING_ROOM)
    factors = torch.where(finite, (limit / norms.clamp(min=1e-300)).clamp(max=1.0), 0.0).float()
    total = {}
    for name, tensor in own.items():
        rows = tensor if bool(finite.all()) else torch.where(_wide(finite, tensor), tensor, 0.0)
        total[name] = torch.einsum("n,n...->...", factors, rows)
    return total


def _wide(flags: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return flags.reshape(-1, *[1] * (tensor.dim() - 1))
