"""The private gradient: each row's gradient is clipped, then the sum gets noise and is divided by the expected batch
size.

Guarantee: `PrivateGradient.step` releases, for one logical batch, the Gaussian mechanism at the plan's noise
multiplier. Adding or removing one row changes the clipped sum by at most the clipping norm C in l2, over all tensors
together. With batches by `core.finetune.sampling` this is one step of the plan. A gradient that is not finite counts as
zero. An empty batch is also a step: its release is noise alone.

Sensitivity. A row adds integers to the sum, in units of u = 2^-30 C: its gradient g, clipped to (1 - 2^-10) C, divided
by u and rounded. Let d be the number of trained parameters. The norm of g is computed in float64. The factor of a row
and each product are rounded once to float32, with a relative error of at most 2^-24 each. Rounding to integers adds at
most 1/2 for each entry. So a row adds a vector of length at most

    (1 - 2^-10) (1 + 2^-22) C + sqrt(d) 2^-31 C <= C        for d <= 2^40.

The sums are exact. No entry of a row exceeds 2^30, so a physical batch of at most 2^22 rows is summed exactly in
float64 (integers below 2^53), and a logical batch of up to 2^32 rows, the most that a plan takes, in int64. The sum is
therefore the same for every order of the rows and every division into physical batches. Adding or removing a row
changes it by exactly the vector of that row, as long as the gradients of the other rows do not change. Rounding in
float32 and float64 does not affect the sum before the noise is added (`core.finetune.sampling`).

Assumption: a row's gradient depends on that row and on earlier releases alone. Within a physical batch this holds up to
the rounding of float32, which may depend on the number of rows (`gpu_workers.finetune.companions`).

This module returns no loss, norm or batch size, only the release.

In hooks mode, Opacus records each row's gradient for linear layers and layer norms. (Its ghost mode clips through a
loss that it returns, and does not clip if another loss is used.)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import torch
from opacus.grad_sample import GradSampleHooks
from torch import nn

from core.finetune.sampling import noisy_sum
from core.mechanisms.vectors.release import noise_generator
from gpu_workers.finetune.batches import Batch

ROUNDING_MARGIN = 2.0**-10
UNIT = 2.0**-30  # of the clipping norm: the value of the integer 1 in a clipped sum

Tensors = dict[str, torch.Tensor]


class PrivateGradient:
    """`model` maps a batch's parts to logits. `parameters`, by name, are all the parameters that it trains."""

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
            raise ValueError("the model has a trained layer that mixes rows in its gradients") from None

    def close(self) -> None:
        """Remove the hooks from the model."""
        self._hooks.cleanup()

    def step(self, batches: Iterable[Batch]) -> Tensors:
        """Return the noisy mean gradient of one logical batch, given in physical parts; float32, on the model's device.

        The mean uses the *expected* size of a batch, because the actual size is private.
        """
        total = {name: torch.zeros_like(each, dtype=torch.int64) for name, each in self._parameters.items()}
        for batch in batches:
            for name, part in clipped_sum(self.own(batch), clip_norm=self._clip_norm).items():
                total[name] += part
        return self._released(total)

    def own(self, batch: Batch) -> Tensors:
        """Return each row's own gradient of its loss, `[rows, ...]` by parameter. Private: for clipping, and for
        tests."""
        self._model.train()
        loss = nn.functional.cross_entropy(self._model(batch.parts), batch.labels, reduction="sum")
        with warnings.catch_warnings():
            # The inputs of the first layers need no gradient. The gradients of their weights are computed nevertheless.
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            loss.backward()  # type: ignore[no-untyped-call]
        found = {}
        for name, parameter in self._parameters.items():
            own = parameter.grad_sample  # type: ignore[attr-defined]
            if not isinstance(own, torch.Tensor) or len(own) != len(batch.labels):
                raise RuntimeError("no gradient of each row was recorded for a parameter")
            found[name] = own
            parameter.grad_sample = None  # type: ignore[attr-defined]
            parameter.grad = None
        return found

    def _released(self, total: Tensors) -> Tensors:
        generator = noise_generator()
        released = {}
        for name, tensor in total.items():
            exact = tensor.cpu().numpy() * (UNIT * self._clip_norm)
            noisy = torch.from_numpy(noisy_sum(exact, deviation=self._deviation, generator=generator))
            released[name] = noisy.to(tensor.device) / self._expected_batch
        return released


@torch.no_grad()
def clipped_sum(own: Tensors, *, clip_norm: float) -> Tensors:
    """The exact sum of the clipped rows, int64 in units of `UNIT * clip_norm`. The bound is in the module docstring.

    `own`: float32 `[rows, ...]`, at most 2^22 rows; overwritten.
    """
    parts = [torch.linalg.vector_norm(tensor.flatten(1), dim=1, dtype=torch.float64) for tensor in own.values()]
    norms = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    finite = norms.isfinite()
    limit = clip_norm * (1 - ROUNDING_MARGIN)
    factors = torch.where(finite, limit / (norms.clamp(min=limit) * (UNIT * clip_norm)), 0.0).float()
    total = {}
    for name, tensor in own.items():
        rows = tensor if bool(finite.all()) else torch.where(_wide(finite, tensor), tensor, 0.0)
        integers = rows.mul_(_wide(factors, tensor)).round_()
        total[name] = integers.double().sum(dim=0).to(torch.int64)
    return total


def _wide(flags: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return flags.reshape(-1, *[1] * (tensor.dim() - 1))
