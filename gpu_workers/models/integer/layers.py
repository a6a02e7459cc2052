"""The weights of a BERT encoder as 8-bit integers.

A layer's input `x` is held as whole numbers `round(x / step) - middle` from -128 to 127, with a step and a middle for
each component. They are chosen beforehand on public text (`gpu_workers.offline.integer_encoder`) and shipped. A weight
is held as a whole number in the unit of its output. A component of a few large weights would make that unit coarse for
all others: such components are held more than once, and each copy carries a part of the weight, from -127 to 127. All
of it follows from the shipped files, number by number, so that it is the same on every machine.
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
FORMAT = "privacy-gateway/integer-steps/2"
LINEAR = ("query_key_value", "attention_output", "intermediate", "output")
_WEIGHT_MAX = 127
PRODUCT_MAX = 2**14  # of two numbers from -128 to 127
_MIDDLE_MAX = 2**20  # so that a sum of weights times middles is exact in float64

Floats = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int8]
Columns = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """How the input of a linear layer is held: `step` and `middle`, float32 `[inner]`; middles are whole numbers.

    `copies`, int64 `[copies]`: the components that follow the others once more. A component can be there several times.
    `shift`, float32 `[outer]`: what the outputs lack on average, because of what is rounded.
    """

    step: Floats
    middle: Floats
    copies: Columns
    shift: Floats


@dataclass(frozen=True)
class StepsFile:
    """`steps`: by the number of the layer and the name of its linear layer, with the same count of copies each.
    `largest`: of queries, keys and values, float32 `[3 width]`, for each layer. `digest`: SHA-256 of the file."""

    encoder_fingerprint: str
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
        layers = int(facts["layers"])
        steps = {
            (layer, name): Steps(
                arrays[f"{layer}.{name}.step"],
                arrays[f"{layer}.{name}.middle"],
                arrays[f"{layer}.{name}.copies"].astype(np.int64),
                arrays[f"{layer}.{name}.shift"],
            )
            for layer in range(layers)
            for name in LINEAR
        }
        if len({len(each.copies) for each in steps.values()}) != 1:
            raise ValueError("the layers of the steps have different counts of copies")
        for each in steps.values():
            if each.step.min() <= 0 or (each.middle != np.rint(each.middle)).any():
                raise ValueError("a step must be positive, and a middle a whole number")
            if np.abs(each.middle).max() > _MIDDLE_MAX:
                raise ValueError("a middle of the steps is too large")
        largest = tuple(arrays[f"{layer}.largest"] for layer in range(layers))
        if min(float(each.min()) for each in largest) <= 0:
            raise ValueError("the largest queries, keys and values must be positive")
        return cls(facts["encoder_fingerprint"], steps, largest, hashlib.sha256(path.read_bytes()).hexdigest())


@dataclass(frozen=True)
class IntegerLinear:
    """`weight`: int8 `[inner + copies, outer]`. The output of whole numbers `x` is `unit * (x @ weight) + bias`; `unit`
    and `bias`: float64 `[outer]`, each the result of single operations on the numbers of the files."""

    weight: Whole
    unit: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]

    @classmethod
    def of(cls, weight: Floats, bias: Floats, steps: Steps) -> IntegerLinear:
        """`weight` `[outer, inner]`, `bias` `[outer]`, in float32. Raises ValueError for steps of another shape, or so
        many inputs that a sum could exceed 32 bits."""
        inner = weight.shape[1]
        if {steps.step.shape, steps.middle.shape} != {(inner,)} or steps.shift.shape != bias.shape:
            raise ValueError("the steps were made for another shape")
        if (inner + len(steps.copies)) * PRODUCT_MAX >= 2**31:
            raise ValueError("a layer has too many inputs for sums of 32 bits")
        whole, unit = rounded(weight.astype(np.float64) * steps.step.astype(np.float64), steps.copies)
        # a product of whole numbers, exact in any order
        middles = whole @ steps.middle.astype(np.float64)
        own = bias.astype(np.float64) + steps.shift.astype(np.float64) + unit * middles
        return cls(shared_among_copies(whole, steps.copies), unit, own)


def rounded(
    weight: npt.NDArray[np.float64], copies: Columns
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """`weight` `[outer, inner]` as whole numbers, and the unit of each output. A number is at most 127 times the count
    of its component."""
    counts = held_times(weight.shape[1], copies)
    unit = np.maximum((np.abs(weight) / counts).max(axis=1) / _WEIGHT_MAX, np.finfo(np.float32).tiny)
    return np.rint(weight / unit[:, None]), unit


def shared_among_copies(whole: npt.NDArray[np.float64], copies: Columns) -> Whole:
    """int8 `[inner + copies, outer]`: each whole number in equal parts, of which the first are larger by 1 where they
    cannot all be equal."""
    inner = whole.shape[1]
    counts = held_times(inner, copies)
    sources = np.concatenate([np.arange(inner), copies])
    place = np.array([int((sources[:i] == source).sum()) for i, source in enumerate(sources)])
    least, more = np.divmod(whole.T[sources], counts[sources, None])
    return np.ascontiguousarray((least + (place[:, None] < more)).astype(np.int8))


def held_times(inner: int, copies: Columns) -> Columns:
    """How often each component is there, int64 `[inner]`."""
    return 1 + np.bincount(copies, minlength=inner)


def held(numbers: Any) -> Floats:
    return np.ascontiguousarray(numbers, dtype=np.float32)
