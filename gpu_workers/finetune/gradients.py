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
the rounding of float32, which may depend on the number of rows (`gpu_workers.finetune.training`).

Class weights. A row's clipped gradient is multiplied by the weight of its label, at most 1, which is public or a
function of an earlier release. This is the gradient of a weighted loss whose clipping norm is in proportion to the
weight. The vector of a row is at most as long as without weights, so the sensitivity and the guarantee do not change.
(A weight in the loss alone would be clipped away again, because nearly every row is clipped.)

This module returns no loss, norm or batch size, only the release.

In hooks mode, Opacus records each row's gradient for linear layers and layer norms. (Its ghost mode clips through a
loss that it returns, and does not clip if another loss is used.)

Four methods choose which tensors get per-row gradients, and which are optimised:

* `head`: the head alone, on the frozen encoder: least noise in all, for small tables.
* `lora`: low-rank adapters (peft) on the encoder's attention, and the head; the rest is frozen.
* `rgp`: all linear layers of the encoder through low-rank carriers, and the head.
* `full`: everything except the embeddings. (Position ids are one row for a whole batch, so they have no per-row
  gradients.)

`rgp` is reparametrised gradient perturbation (Yu et al. 2021; EW-Tune). In a step, W is written as L R + (W - L R): L
`[out, rank]` with orthonormal columns, R `[rank, in]` with orthonormal rows, the rest fixed. Only L and R (and the
head) have gradients. These are clipped together and get noise, and dW = dL R + L dR - L L^T dL R is the part of the
gradient of W that remains after projection on the columns of L and the rows of R (EW-Tune's Algorithm 1 prints the last
term without its first L). An ordinary optimiser updates W with it.

The carriers use nothing private: they come from one power iteration, from a random start, on W itself in the first
steps and on W - W_0 afterwards, where W_0 is public and W results from the noisy releases (their Algorithm 2). They
read no batch, so they are post-processing and cost nothing.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import torch
from torch import nn

from core.errors import InvalidInput
from core.finetune.inputs import RANK
from core.finetune.sampling import noisy_sum
from core.mechanisms.vectors.release import noise_generator
from gpu_workers.finetune.classifier import Batch, Classifier

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
        expected_batch: float,
    ) -> None:
        """Raises: ValueError if the model trains another set of parameters, or has a layer that mixes rows."""
        trained = {parameter for parameter in model.parameters() if parameter.requires_grad}
        if trained != set(parameters.values()) or not parameters:
            raise ValueError("the parameters are not those that the model trains")
        self._model, self._parameters = model, dict(parameters)
        self._clip_norm, self._deviation = clip_norm, noise_multiplier * clip_norm
        self._expected_batch = expected_batch
        self._weights: torch.Tensor | None = None
        from opacus.grad_sample import GradSampleHooks  # takes seconds, and a classifier that answers needs no gradient

        model.train()
        try:
            self._hooks = GradSampleHooks(model, loss_reduction="sum")
        except NotImplementedError:
            raise ValueError("the model has a trained layer that mixes rows in its gradients") from None

    def weigh(self, weights: torch.Tensor, mean: float) -> None:
        """Set the weight of each label's rows, float64 `[labels]` in (0, 1], and their mean over the rows. Both must be
        public or released."""
        self._weights, self._expected_batch = weights, self._expected_batch * mean

    def close(self) -> None:
        """Remove the hooks from the model."""
        self._hooks.cleanup()

    def step(self, batches: Iterable[Batch]) -> Tensors:
        """Return the noisy mean gradient of one logical batch, given in physical parts; float32, on the model's device.

        The mean uses the *expected* size of a batch, because the actual size is private.
        """
        total = {name: torch.zeros_like(each, dtype=torch.int64) for name, each in self._parameters.items()}
        for batch in batches:
            own = self.own(batch)
            for name, part in clipped_sum(own, clip_norm=self._clip_norm, **self._weights_of(batch)).items():
                total[name] += part
        return self._released(total)

    def _weights_of(self, batch: Batch) -> Tensors:
        return {} if self._weights is None else {"weights": self._weights.to(batch.labels.device)[batch.labels]}

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
def clipped_sum(own: Tensors, *, clip_norm: float, weights: torch.Tensor | None = None) -> Tensors:
    """The exact sum of the clipped rows, int64 in units of `UNIT * clip_norm`. The bound is in the module docstring.

    `own`: float32 `[rows, ...]`, at most 2^22 rows; overwritten. `weights`: float64 `[rows]`; above 1 they count as 1.
    """
    parts = [torch.linalg.vector_norm(tensor.flatten(1), dim=1, dtype=torch.float64) for tensor in own.values()]
    norms = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    finite = norms.isfinite()
    limit = clip_norm * (1 - ROUNDING_MARGIN)
    factors = torch.where(finite, limit / (norms.clamp(min=limit) * (UNIT * clip_norm)), 0.0)
    if weights is not None:
        factors = factors * weights.clamp(0.0, 1.0)
    factors = factors.float()
    total = {}
    for name, tensor in own.items():
        rows = tensor if bool(finite.all()) else torch.where(_wide(finite, tensor), tensor, 0.0)
        integers = rows.mul_(_wide(factors, tensor)).round_()
        total[name] = integers.double().sum(dim=0).to(torch.int64)
    return total


def _wide(flags: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return flags.reshape(-1, *[1] * (tensor.dim() - 1))


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


_ATTENTION = ("query", "value")  # the names in BERT and RoBERTa


class Method(StrEnum):
    HEAD = "head"
    LORA = "lora"
    RGP = "rgp"
    FULL = "full"


class Trained(ABC):
    """`own`: the tensors with per-row gradients. `optimised`: the tensors that the optimiser updates and a file
    holds."""

    rate: float  # a rate at which the method has been shown to learn
    clip_norm = 0.1  # nearly every row is clipped, so that all rows count alike; Adam compensates for the scale
    is_adaptive = True  # by Adam, or by plain descent

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


class Head(_Direct):
    """Plain descent for a few steps: the layer is then close to the differences between the means of the labels, which
    a small table determines best. Rate and norm are those for pooled vectors of length 1, whose length is sqrt(width).
    """

    is_adaptive = False

    def __init__(self, model: Classifier) -> None:
        self.rate, self.clip_norm = 20.0 / model.width, 0.2 * model.width**0.5
        model.backbone.requires_grad_(False)
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
    if method is Method.HEAD:
        return Head(model)
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
