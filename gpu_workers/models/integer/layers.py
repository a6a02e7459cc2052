"""The weights of a BERT encoder as 8-bit integers.

A layer's input `x` is held as whole numbers of 8 bits, of which each row has one unit: `x / step - middle` over the
largest of them in that row. Steps and middles, one for each component, are chosen beforehand on public text
(`training.integer_encoder`) and shipped. A weight is held as a whole number in the unit of its output. A
component of a few large weights would make that unit coarse for all others: such components are held more than once,
and each copy carries a part of the weight, from -127 to 127. All of it follows from the shipped files, number by
number, so that it is the same on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_workers.models.tensor_file import read_tensors

STEPS = Path(__file__).parent.parent.parent / "adapters" / "integer_encoder.safetensors"
FORMAT = "privacy-gateway/integer-steps/3"
LINEAR = ("query_key_value", "attention_output", "intermediate", "output")
_TYPES = {
    "step": (np.float32, 1),
    "middle": (np.float32, 1),
    "copies": (np.int64, 1),
    "shift": (np.float32, 1),
    "up": (np.uint8, 2),
    "largest": (np.float32, 1),
}
_PARTS = ("step", "middle", "copies", "shift", "up")
_WEIGHT_MAX = 127
POSITIVE = frozenset({"output"})  # those whose inputs less their middles are positive: -128 stands for 0
PRODUCT_MAX = 2**14  # of two numbers from -128 to 127
_BELOW = 128
_HELD_MAX = 2**20
_MIDDLE_MAX = 2**20  # so that a sum of weights times middles is exact in float64

Floats = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int8]
Columns = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """How the input of a linear layer is held: `step` and `middle`, float32 `[inner]`; middles are whole numbers, so
    that a sum of weights times middles is exact.

    `copies`, int64 `[copies]`: the components that follow the others once more. A component can be there several times.
    `shift`, float32 `[outer]`: what the outputs lack on average, because of what is rounded. `up`, uint8
    `[outer, inner / 8]`: a bit for each weight, 1 where it is rounded up and 0 where it is rounded down.
    """

    step: Floats
    middle: Floats
    copies: Columns
    shift: Floats
    up: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class StepsFile:
    """`steps`: by the number of the layer and the name of its linear layer.
    `largest`: of queries, keys and values, float32 `[3 width]`, for each layer. `adapter_digest`: SHA-256 of the file
    of the adapter on that encoder; empty for the encoder itself. `digest`: SHA-256 of the file."""

    encoder_fingerprint: str
    adapter_digest: str
    steps: Mapping[tuple[int, str], Steps]
    largest: tuple[Floats, ...]
    digest: str

    @classmethod
    def load(cls, path: Path = STEPS) -> StepsFile:
        """Raises ValueError for another file, or one that is not as this class describes."""
        found, facts, arrays = read_tensors(path)
        if found != FORMAT:
            raise ValueError("not a file of the steps of an integer encoder")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("the steps of an integer encoder must be finite")
        try:
            layers = int(facts["layers"])
            steps = {
                (layer, name): Steps(*(_array(arrays, f"{layer}.{name}.{part}") for part in _PARTS))
                for layer in range(layers)
                for name in LINEAR
            }
            largest = tuple(_array(arrays, f"{layer}.largest") for layer in range(layers))
            encoder_fingerprint, adapter_digest = (
                str(facts["encoder_fingerprint"]),
                str(facts.get("adapter_digest", "")),
            )
        except KeyError:
            raise ValueError("the file of an integer encoder's steps lacks a part") from None
        for each in steps.values():
            if each.step.min() <= 0 or (each.middle != np.rint(each.middle)).any():
                raise ValueError("a step must be positive, and a middle a whole number")
            if np.abs(each.middle).max() > _MIDDLE_MAX:
                raise ValueError("a middle of the steps is too large")
        if min(float(each.min()) for each in largest) <= 0:
            raise ValueError("the largest queries, keys and values must be positive")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return cls(encoder_fingerprint, adapter_digest, steps, largest, digest)


def _array(arrays: Mapping[str, Any], name: str) -> Any:
    """Raises KeyError if it is missing, and ValueError for another type or number of dimensions."""
    array = arrays[name]
    if (array.dtype, array.ndim) != _TYPES[name.rpartition(".")[2]]:
        raise ValueError("an array of the steps of an integer encoder is of another type")
    return array


@dataclass(frozen=True)
class IntegerLinear:
    """`weight`: int8 `[inner + copies, outer]`. The output of whole numbers `x` in units of `scale` is
    `scale * unit * (x @ weight + lacking) + bias`. `lacking`: int32 `[outer]`. `unit` and `bias`: float64 `[outer]`,
    each the result of single operations on the numbers of the files."""

    weight: Whole
    lacking: npt.NDArray[np.int32]
    unit: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]

    @classmethod
    def of(cls, weight: Floats, bias: Floats, steps: Steps, *, positive: bool) -> IntegerLinear:
        """`weight` `[outer, inner]`, `bias` `[outer]`, in float32. `positive`: -128 stands for 0. Raises ValueError for
        steps of another shape, or so many inputs that a sum could exceed 32 bits."""
        inner = weight.shape[1]
        if (
            {steps.step.shape, steps.middle.shape} != {(inner,)}
            or steps.shift.shape != bias.shape
            or not set(steps.copies.tolist()) <= set(range(inner))
            or steps.up.shape != (len(bias), (inner + 7) // 8)
        ):
            raise ValueError("the steps were made for another shape")
        if 2 * (inner + len(steps.copies)) * PRODUCT_MAX >= 2**31:
            raise ValueError("a layer has too many inputs for sums of 32 bits")
        whole, unit = rounded(weight.astype(np.float64) * steps.step.astype(np.float64), steps.copies, steps.up)
        # a product of whole numbers, exact in any order
        middles = whole @ steps.middle.astype(np.float64)
        own = bias.astype(np.float64) + steps.shift.astype(np.float64) + unit * middles
        lacking = (whole.sum(axis=1) * (_BELOW if positive else 0)).astype(np.int32)
        return cls(shared_among_copies(whole, steps.copies), lacking, unit, own)


def units(weight: npt.NDArray[np.float64], copies: Columns) -> npt.NDArray[np.float64]:
    """The unit of each output, of which a weight in `weight` `[outer, inner]` has at most 127 times the count of its
    component."""
    counts = held_times(weight.shape[1], copies)
    unit: npt.NDArray[np.float64] = (np.abs(weight) / counts).max(axis=1) / _WEIGHT_MAX
    return np.maximum(unit, np.finfo(np.float32).tiny)


def rounded(
    weight: npt.NDArray[np.float64], copies: Columns, up: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """`weight` `[outer, inner]` as whole numbers, and the unit of each output. `up`: as in `Steps`. Raises ValueError
    where a number is more than 127 times the count of its component."""
    unit = units(weight, copies)
    whole: npt.NDArray[np.float64] = np.floor(weight / unit[:, None]) + np.unpackbits(up, axis=1, count=weight.shape[1])
    if (np.abs(whole) > _WEIGHT_MAX * held_times(weight.shape[1], copies)).any():
        raise ValueError("a weight is rounded to a number that is too large")
    return whole, unit


def shared_among_copies(whole: npt.NDArray[np.float64], copies: Columns) -> Whole:
    """int8 `[inner + copies, outer]`: each whole number in equal parts, of which the first are larger by 1 where they
    cannot all be equal."""
    inner = whole.shape[1]
    counts = held_times(inner, copies)
    sources = np.concatenate([np.arange(inner), copies])
    parts = np.empty((len(sources), len(whole)), np.int8)
    single = np.flatnonzero(counts == 1)
    parts[single] = whole.T[single]
    for source in np.flatnonzero(counts > 1):
        least, more = np.divmod(whole[:, source], counts[source])
        for place, row in enumerate(np.flatnonzero(sources == source)):
            parts[row] = least + (place < more)
    return parts


def held_times(inner: int, copies: Columns) -> Columns:
    """How often each component is there, int64 `[inner]`."""
    return 1 + np.bincount(copies, minlength=inner)


def held(numbers: Any) -> Floats:
    """Factors and offsets in float32. Raises ValueError for numbers so large that a product of some could be inf - inf
    or 0 * inf, whose result no bound would limit."""
    if not float(np.abs(numbers).max(initial=0)) <= _HELD_MAX:
        raise ValueError("the numbers of this model are too large for an integer encoder")
    return np.ascontiguousarray(numbers, dtype=np.float32)
