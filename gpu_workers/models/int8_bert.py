"""The forward pass of `PackedBert` with 8-bit linear layers.

Between two layers, numbers are kept in the unit of the next 8-bit input and measured from its middle: `(x - middle) /
step + 128.5`. To make the input, they are clipped and lose their fractions. The weights of the layer norms and of the
layers before them, and the sum with what bypasses a layer, take care of units and middles. A layer norm's result does
not depend on the unit of its input.

Attention runs in float32: in bfloat16 it takes two thirds of the time, and the F1 of the tagger falls by .003 on
CoNLL-2003. Its kernels depend on the shape, so a number may change in its last digits with the other rows of a batch.
No privacy guarantee relies on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from gpu_workers.models.int8_linear import MIDDLE, STEPS, Int8Linear, RangedLinear, rounded
from gpu_workers.models.packed_bert import Group, Layer, PackedBert

_ROUNDED = MIDDLE + 0.5  # losing the fraction of a number with .5 added rounds it


class _Norm(NamedTuple):
    weight: torch.Tensor
    bias: torch.Tensor
    eps: float

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        return layer_norm(hidden, hidden.shape[1:], self.weight, self.bias, self.eps)


class _Int8Layer:
    def __init__(self, layer: Layer, following: RangedLinear | None, *, heads: int, eps: float):
        """`following`: what reads the output; None for the last layer, whose output is in its own unit."""
        own = layer.query_key_value
        attended, wide, narrow = layer.attention_output, layer.intermediate, layer.output
        if not all(isinstance(each, RangedLinear) for each in (own, attended, wide, narrow)):
            raise TypeError("the linear layers have no ranges")
        width = own.weight.shape[1]
        self._heads = heads
        factor = torch.ones(3 * width)  # puts values in the unit of the next input
        factor[2 * width :] /= attended.step
        self._query_key_value = _linear(own, torch.zeros(()), factor)
        self._offset = (_ROUNDED - attended.middle / attended.step).view(heads, width // heads)
        self._attention_output = _linear(attended, _bypass(own), 1 / own.step)
        self._attention_norm = _norm(layer.attention_norm, wide, eps / own.step**2)
        self._intermediate = _linear(wide, torch.zeros(()), 1.0)
        low, high = float(narrow.low.min()), float(narrow.high.max())
        self._step = max((high - low) / STEPS, torch.finfo(torch.float32).tiny)
        self._zero = min(max(round(-low / self._step), 0), STEPS)
        self._output = Int8Linear(
            narrow.weight, narrow.bias + _bypass(wide), step=self._step, zero=self._zero, factor=1 / wide.step
        )
        self._output_norm = _norm(layer.output_norm, following, eps / wide.step**2)

    def __call__(
        self, hidden: torch.Tensor, groups: Sequence[Group], unseen: Sequence[torch.Tensor | None]
    ) -> torch.Tensor:
        attended = self._attend(self._query_key_value(rounded(hidden)), groups, unseen)
        hidden = self._attention_norm(self._attention_output.added_to(hidden, rounded(attended)))
        wide = self._intermediate.gelu(rounded(hidden), step=self._step, zero=self._zero)
        return self._output_norm(self._output.added_to(hidden, wide))

    def _attend(
        self, packed: torch.Tensor, groups: Sequence[Group], unseen: Sequence[torch.Tensor | None]
    ) -> torch.Tensor:
        tokens, heads = len(packed), self._heads
        size = packed.shape[1] // 3 // heads
        attended = torch.empty((tokens, heads, size))
        first = 0
        for (ids, _), hidden in zip(groups, unseen, strict=True):
            rows, length = ids.shape
            own = slice(first, first := first + rows * length)
            query, key, value = packed[own].view(rows, length, 3, heads, size).permute(2, 0, 3, 1, 4)
            mixed = scaled_dot_product_attention(query, key, value, attn_mask=hidden)
            torch.add(mixed.transpose(1, 2), self._offset, out=attended[own].view(rows, length, heads, size))
        return attended.view(tokens, -1)


class Int8Bert:
    """Made of a `PackedBert` whose layers are `RangedLinear` and have seen public samples."""

    def __init__(self, bert: PackedBert) -> None:
        self._bert = bert
        inputs = [layer.query_key_value for layer in bert.layers]
        self._norm = _norm(bert.norm, inputs[0], bert.eps)
        self._layers = [
            _Int8Layer(layer, following, heads=bert.heads, eps=bert.eps)
            for layer, following in zip(bert.layers, [*inputs[1:], None], strict=True)
        ]

    def __call__(self, groups: Sequence[Group], added: torch.Tensor) -> list[torch.Tensor]:
        """See `PackedBert`."""
        hidden = self._norm(self._bert.embedded(groups, added))
        unseen = [self._unseen(mask) for _, mask in groups]
        for layer in self._layers:
            hidden = layer(hidden, groups, unseen)
        return self._bert.blocks(hidden, groups)

    @staticmethod
    def _unseen(mask: torch.Tensor) -> torch.Tensor | None:
        """What is added to the scores of the tokens of each sentence; None without padding."""
        if bool(mask.all()):
            return None
        return torch.zeros(mask.shape).masked_fill_(~mask, -math.inf)[:, None, None, :].expand(-1, 1, mask.shape[1], -1)


def _linear(ranged: RangedLinear, bypass: torch.Tensor, factor: torch.Tensor | float) -> Int8Linear:
    bias = ranged.bias + ranged.weight @ ranged.middle + bypass
    return Int8Linear(ranged.weight, bias, step=ranged.step, zero=MIDDLE, factor=factor)


def _bypass(ranged: RangedLinear) -> torch.Tensor:
    """What is added to the numbers that a layer reads, times its step, to have them in their own unit."""
    return ranged.middle - _ROUNDED * ranged.step


def _norm(norm: tuple[torch.Tensor, torch.Tensor], following: RangedLinear | None, eps: float) -> _Norm:
    """The layer norm whose result `following` reads."""
    weight, bias = norm
    if following is None:
        return _Norm(weight, bias, eps)
    return _Norm(weight / following.step, (bias - following.middle) / following.step + _ROUNDED, eps)
