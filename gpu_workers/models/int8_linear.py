"""Linear layers with 8-bit integers, for processors that multiply them about twice as fast as bfloat16.

Weights have one scale for each output, fixed when the layer is created. Inputs have one range for each layer, fixed
beforehand on public samples. The output of a row therefore depends on that row alone, whatever the other rows are.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch.nn.functional import linear

_ENGINE = "fbgemm"  # its sums are exact; oneDNN took seconds for a layer on a processor for which it has no kernel
_STEPS = 255
_MIDDLE = 128


@cache
def int8_supported() -> bool:
    """Whether this processor sums 8-bit products in 32 bits (others overflow at 16). No flag reports it, so it is
    tested."""
    if _ENGINE not in torch.backends.quantized.supported_engines:
        return False
    width = 64
    ends = torch.ones(width)
    widest = Int8Linear(torch.ones(1, width), torch.zeros(1), low=-ends, high=ends)
    return abs(float(widest(ends[None])) - width) < 1


class Int8Linear:
    """Each output row depends only on the same input row: the sums are exact, and the steps before and after them treat
    numbers one by one. No privacy guarantee relies on this.

    `weight` `[out, in]`, `bias` `[out]`; inputs and outputs are float32. `low`, `high` `[in]`: the range of each input.
    Inputs are measured from the middle of their range, and the bias compensates for it. One step size serves all
    inputs, so an input is clipped if its distance from its middle exceeds half the widest range.
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
                warnings.simplefilter("ignore")  # later versions of torch replace this operator; ours is pinned
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
    """The layer in float32. It records the range of each of its inputs; the range always includes zero."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self._pair = weight, bias
        self._low = self._high = torch.zeros(weight.shape[1])

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        self._low = torch.minimum(self._low, inputs.amin(dim=0))
        self._high = torch.maximum(self._high, inputs.amax(dim=0))
        return linear(inputs, *self._pair)

    def fixed(self) -> Int8Linear:
        return Int8Linear(*self._pair, low=self._low, high=self._high)
