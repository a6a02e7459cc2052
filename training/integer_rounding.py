"""How a linear layer's inputs and weights are rounded to 8-bit integers, chosen with rows of its inputs.

The step of a component is its standard deviation to a power, and its middle is its mean. The components that are held
more than once are those that lower the squares of the outputs' units most, one after the other. Each weight is rounded
up or down by the method of Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers" (ICLR 2023): one component after the other, the rounding makes up for the errors of those before it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gpu_workers.models.integer.layers import Columns, Steps, held_times, rounded, units

_POWERS = (0.3, 0.4, 0.5, 0.6, 0.75, 0.9)
_SMALLEST = 1e-6
_LOWEST = -0.17  # below all values of the GELU
_FINE = 2.0**15  # the largest number of the rows, in steps: a middle loses nothing as a whole number
_DAMPING = 0.01  # of the mean square of a component, added to all


@dataclass(frozen=True)
class Rounding:
    """A linear layer as the integer encoder computes it, in floating point. `positive`: its inputs are those of a
    GELU."""

    weight: torch.Tensor
    bias: torch.Tensor
    steps: Steps
    positive: bool

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.rows(inputs) @ self.weight.T + self.bias

    def rows(self, inputs: torch.Tensor) -> torch.Tensor:
        """The inputs as the encoder holds them."""
        return _held(inputs, torch.from_numpy(self.steps.step), torch.from_numpy(self.steps.middle), self.positive)


def _held(inputs: torch.Tensor, step: torch.Tensor, middle: torch.Tensor, positive: bool) -> torch.Tensor:
    numbers = inputs / step - middle
    if positive:
        numbers = numbers.clamp_min(0)
    unit = numbers.abs().amax(dim=1, keepdim=True).clamp_min(_SMALLEST) / (255 if positive else 127)
    return ((numbers / unit).round() * unit + middle) * step


def fitted(
    weight: torch.Tensor, bias: torch.Tensor, exact: torch.Tensor, inputs: torch.Tensor, copies: int, *, positive: bool
) -> tuple[Rounding, float]:
    """The rounding with the power of least error, and the error of the outputs to those in floating point: the mean of
    a row's squared error over its squares, to which the median of all rows is added, so that neither the largest nor
    the smallest rows decide.

    `weight` `[outer, inner]`, `bias` `[outer]`. `exact`: inputs in floating point, `[rows, inner]`. `inputs`: the same
    after the roundings of the layers before. All in float32. `copies`: how many components are held once more.
    """
    outputs = exact @ weight.T
    squares = outputs.square().sum(dim=1)
    inverse = 1 / (squares + squares.median())
    shares = inverse / inverse.sum()
    mean = shares @ inputs
    deviation = (shares @ (inputs - mean).square()).sqrt().clamp_min(_SMALLEST)
    wanted = inputs @ weight.T

    def tried(power: float) -> tuple[float, torch.Tensor, torch.Tensor, Columns]:
        step = deviation.max() ** (1 - power) * deviation**power
        base = torch.full_like(mean, _LOWEST) if positive else mean
        step = step * (((inputs - base) / step).abs().max() / _FINE)
        middle = (base / step).floor()
        scaled = _scaled(weight, step)
        chosen = copied(scaled, copies)
        unit = units(scaled, chosen)
        own = _as_floats(np.rint(scaled / unit[:, None]), unit, step)
        lacking = wanted - _held(inputs, step, middle, positive) @ own.T
        lacking = lacking - shares @ lacking
        return float(shares @ lacking.square().sum(dim=1)), step, middle, chosen

    _, step, middle, chosen = min((tried(power) for power in _POWERS), key=lambda each: each[0])
    held = _held(inputs, step, middle, positive)
    scaled = _scaled(weight, step)
    up = rounded_up(scaled, chosen, (held / step).double().numpy(), shares.double().numpy())
    whole, unit = rounded(scaled, chosen, up)
    own = _as_floats(whole, unit, step)
    lacking = outputs - held @ own.T
    shift = shares @ lacking
    error = float((inverse * (lacking - shift).square().sum(dim=1)).mean())
    return Rounding(own, bias + shift, Steps(step.numpy(), middle.numpy(), chosen, shift.numpy(), up), positive), error


def _scaled(weight: torch.Tensor, step: torch.Tensor) -> npt.NDArray[np.float64]:
    scaled: npt.NDArray[np.float64] = (weight.double() * step.double()).numpy()
    return scaled


def _as_floats(whole: npt.NDArray[np.float64], unit: npt.NDArray[np.float64], step: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(whole * unit[:, None]).float() / step


def copied(weight: npt.NDArray[np.float64], count: int) -> Columns:
    """The components of `weight` `[outer, inner]` to hold more than once, int64 `[count]`."""
    sizes = np.abs(weight)
    outputs = np.arange(len(sizes))
    counts = np.ones(sizes.shape[1])
    chosen = []
    for _ in range(count):
        shares = sizes / counts
        largest = shares.argmax(axis=1)
        before = shares[outputs, largest]
        shares[outputs, largest] = sizes[outputs, largest] / (counts[largest] + 1)
        gain = np.bincount(largest, before**2 - shares.max(axis=1) ** 2)
        chosen.append(int(gain.argmax()))
        counts[chosen[-1]] += 1
    return np.array(chosen, dtype=np.int64)


def rounded_up(
    weight: npt.NDArray[np.float64], copies: Columns, rows: npt.NDArray[np.float64], shares: npt.NDArray[np.float64]
) -> npt.NDArray[np.uint8]:
    """Which weights `[outer, inner]` to round up, as `Steps.up`. `rows`: `[rows, inner]`, of which each has a share."""
    centred = rows - shares @ rows
    squares = (centred * shares[:, None]).T @ centred
    squares += _DAMPING * squares.diagonal().mean() * np.eye(len(squares))
    order = np.argsort(-squares.diagonal(), kind="stable")
    factor = np.linalg.cholesky(np.linalg.inv(squares[np.ix_(order, order)])).T
    most = 127 * held_times(weight.shape[1], copies)[order]
    left = (weight / units(weight, copies)[:, None])[:, order]
    lowest = np.floor(left)
    up = np.zeros(weight.shape, bool)
    for j, component in enumerate(order):
        number = np.clip(np.clip(np.rint(left[:, j]), lowest[:, j], lowest[:, j] + 1), -most[j], most[j])
        up[:, component] = number > lowest[:, j]
        left[:, j + 1 :] -= ((left[:, j] - number) / factor[j, j])[:, None] * factor[j, j + 1 :]
    return np.packbits(up, axis=1)
