"""Linear layers in 8-bit integers, on processors that multiply those about twice as fast as bfloat16.

Weights have one scale an output, fixed when the layer is made. Inputs have one range a layer, fixed beforehand on
public samples: what comes out of a row then depends on that row alone, whosever rows are beside it.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch.nn.functional import linear

_ENGINE = "fbgemm"  # its sums are exact; oneDNN's took seconds for a layer on a processor that it has no kernel for
_STEPS = 255
_MIDDLE = 128


@cache
def int8_supported() -> bool:
    """Whether this processor sums 8-bit products in 32 bits; others overflow at 16. Tried, since no flag says it."""
    if _ENGINE not in torch.backends.quantized.supported_engines:
        return False
    width = 64
    ends = torch.ones(width)
    widest = Int8Linear(torch.ones(1, width), torch.zeros(1), low=-ends, high=ends)
    return abs(float(widest(ends[None])) - width) < 1


class Int8Linear:
    """Each row of the output depends on the same row of the input alone: the sums are exact, and what is before and
    after them treats numbers one by one. No privacy guarantee relies on it.

    `weight` `[out, in]`, `bias` `[out]`; inputs and outputs are float32. `low`, `high` `[in]`: the range of each input.
    Inputs are counted from the middle of their range, the bias makes up for it; one step serves all, so that an input
    is cut off where it is further from its middle than the widest range reaches.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, *, low: torch.Tensor, high: torch.Tensor) -> None:
        tiny = torch.finfo(torch.float32).tiny
        self._middle = (low + high) / 2
        self._step = max(float((high - low).max()) / _STEPS, tiny)
        scales = (weight.abs().amax(dim=1) / 127).clamp_min(tiny)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = _ENGINE
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a later torch will have other operators for it; this one is pinned
                whole = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8)
            self._packed = torch.ops.quantized.linear_prepack(whole, bias + weight @ self._middle)
        finally:
            torch.backends.quantized.engine = before

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            inputs - self._middle, self._step, _MIDDLE, self._packed
        )
        return out


class RangedLinear:
    """The layer in float32, which remembers the range of each of its inputs; zero is always in it."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self._pair = weight, bias
        self._low = self._high = torch.zeros(weight.shape[1])

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        self._low = torch.minimum(self._low, inputs.amin(dim=0))
        self._high = torch.maximum(self._high, inputs.amax(dim=0))
        return linear(inputs, *self._pair)

    def fixed(self) -> Int8Linear:
        return Int8Linear(*self._pair, low=self._low, high=self._high)
