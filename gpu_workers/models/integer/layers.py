"""The weights of a BERT encoder as 8-bit integers.

A layer's input `x` is held as whole numbers `round(x / step) - middle` from -128 to 127, with a step and a middle for
each component. They are chosen beforehand on public text (`gpu_workers.offline.integer_encoder`) and shipped. A weight
is held as a whole number from -127 to 127, in the unit of its output. All of it follows from the shipped files, number
by number, so that it is the same on every machine.
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
FORMAT = "privacy-gateway/integer-steps/1"
LINEAR = ("query_key_value", "attention_output", "intermediate", "output")
_WEIGHT_MAX = 127

Floats = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Steps:
    """How the input of a linear layer is held: `step` and `middle`, float32 `[inner]`; middles are whole numbers."""

    step: Floats
    middle: Floats


@dataclass(frozen=True)
class StepsFile:
    """`steps`: by the number of the layer and the name of its linear layer. `largest`: of queries, keys and values,
    float32 `[3 width]`, for each layer. `digest`: SHA-256 of the file."""

    encoder_fingerprint: str
    steps: Mapping[tuple[int, str], Steps]
    largest: tuple[Floats, ...]
    digest: str

    @classmethod
    def load(cls, path: Path = STEPS) -> StepsFile:
        """Raises ValueError for another file."""
        found, facts, arrays = read_tensors(path)
        if found != FORMAT:
            raise ValueError("not a file of the steps of an integer encoder")
        layers = int(facts["layers"])
        steps = {
            (layer, name): Steps(arrays[f"{layer}.{name}.step"], arrays[f"{layer}.{name}.middle"])
            for layer in range(layers)
            for name in LINEAR
        }
        largest = tuple(arrays[f"{layer}.largest"] for layer in range(layers))
        return cls(facts["encoder_fingerprint"], steps, largest, hashlib.sha256(path.read_bytes()).hexdigest())


@dataclass(frozen=True)
class IntegerLinear:
    """`weight`: int8 `[inner, outer]`. The output of whole numbers `x` is `unit * (x @ weight) + bias`; `unit` and
    `bias`: float64 `[outer]`, each the result of single operations on the numbers of the files."""

    weight: Whole
    unit: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]

    @classmethod
    def of(cls, weight: Floats, bias: Floats, steps: Steps) -> IntegerLinear:
        """`weight` `[outer, inner]`, `bias` `[outer]`, in float32."""
        scaled = weight.astype(np.float64) * steps.step.astype(np.float64)
        unit = np.maximum(np.abs(scaled).max(axis=1) / _WEIGHT_MAX, np.finfo(np.float32).tiny)
        whole = np.rint(scaled / unit[:, None])
        # a product of whole numbers, exact in any order
        middles = whole @ steps.middle.astype(np.float64)
        return cls(np.ascontiguousarray(whole.T.astype(np.int8)), unit, bias.astype(np.float64) + unit * middles)


def held(numbers: Any) -> Floats:
    return np.ascontiguousarray(numbers, dtype=np.float32)
