"""Linear layers with 8-bit integers, for processors that multiply them about twice as fast as bfloat16.

Weights have one scale for each output, fixed when the layer is created. Inputs are whole numbers from 0 to 255 with one
step for each layer, fixed beforehand on public samples. The output of a row therefore depends on that row alone,
whatever the other rows are.
"""

from __future__ import annotations

from functools import cache

import torch
from torch.nn.functional import linear

STEPS = 255
MIDDLE = 128
_TINY = torch.finfo(torch.float32).tiny


@cache
def int8_supported() -> bool:
    """Whether this processor sums 8-bit products in 32 bits (others overflow at 16). No flag says what the library
    uses, so it is tested."""
    if not torch.cpu.get_capabilities().get("avx512_vnni"):
        return False  # for some processors the library has no kernel, and takes seconds for a layer
    width = 64
    widest = Int8Linear(torch.ones(width, width), torch.zeros(width), step=1.0, zero=0)
    inputs = torch.full((width, width), STEPS, dtype=torch.uint8)
    return all(bool(((widest(rows) - STEPS * width).abs() < 1).all()) for rows in (inputs, inputs[:1]))


def rounded(inputs: torch.Tensor) -> torch.Tensor:
    """Return float32 numbers without their fractions, and those below 0 or above 255 as 0 or 255, as uint8.

    NumPy converts them, because torch takes several times as long."""
    return torch.from_numpy(inputs.clamp(0, STEPS).numpy().astype("uint8"))


class Int8Linear:
    """`(W (step (inputs - zero)) + bias)`, times `factor`. Each output row depends only on the same input row: the
    sums are exact, and the steps before and after them treat numbers one by one. No privacy guarantee relies on this.

    `weight` `[out, in]`, `bias` `[out]`; `factor`: a number, or one for each output. Inputs are uint8.
    """

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor, *, step: float, zero: int, factor: torch.Tensor | float = 1.0
    ) -> None:
        scales = (weight.abs().amax(dim=1) / 127).clamp_min(_TINY)
        whole = (weight / scales[:, None]).round().to(torch.int8)
        self._zeros = torch.zeros(len(scales), dtype=torch.int64)
        self._packed = torch.ops.onednn.qlinear_prepack(whole, None), scales * factor, self._zeros
        self._bias = bias * factor
        self._input = step, zero

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            inputs, *self._input, *self._packed, self._bias, 1.0, 0, torch.float32, "none", [], ""
        )
        return out

    def added_to(self, other: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """Return the output plus `other`, float32, whose memory it takes."""
        own = (inputs, *self._input, *self._packed, other, self._bias, 1.0, 0, torch.float32)
        out: torch.Tensor = torch.ops.onednn.qlinear_pointwise.binary(*own, 1.0, 0, "sum", 1.0, "none", [], "")
        return out

    def gelu(self, inputs: torch.Tensor, *, step: float, zero: int) -> torch.Tensor:
        """Return the GELU of the output as uint8 with this step and zero."""
        out: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            inputs, *self._input, *self._packed, self._bias, step, zero, torch.uint8, "gelu", [], "none"
        )
        return out


class RangedLinear:
    """The layer in float32. It records the range of each of its inputs, `low` and `high` `[in]`; the range always
    includes zero. For one thread at a time."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.weight, self.bias = weight, bias
        self.low = self.high = torch.zeros(weight.shape[1])

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        self.low = torch.minimum(self.low, inputs.amin(dim=0))
        self.high = torch.maximum(self.high, inputs.amax(dim=0))
        return linear(inputs, self.weight, self.bias)

    @property
    def middle(self) -> torch.Tensor:
        """`[in]`: what inputs are measured from, so that one step serves inputs of different ranges."""
        return (self.low + self.high) / 2

    @property
    def step(self) -> float:
        """An input is clipped if its distance from its middle exceeds half the widest range, 255 steps."""
        return max(float((self.high - self.low).max()) / STEPS, _TINY)
