"""A generator's file and the rows that it makes, without torch: what a front end draws synthetic rows with.

Guarantee: post-processing of the release that the generator was trained on; no private row is read. The forward pass
is that of `gpu_workers.synthesis.generator` as it stands after training; a test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from core.errors import InvalidInput
from core.mechanisms.vectors.noise import noise_generator
from core.synthesis.encoding import STEPS, CodeArray, EncodedTable
from core.synthesis.schema import NumericColumn, TableSchema, table_schema

GENERATOR_FORMAT: Final = "privacy-gateway/generator/1"
FloatArray = npt.NDArray[np.float32]

_NORMALISATION_EPSILON = 1e-5  # torch's, which no file holds
_LINEAR, _NORMALISED = (0, 3, 6), (1, 4)
_BLOCK = 1 << 12


@dataclass(frozen=True, eq=False)
class StoredGenerator:
    """`weights` by their names in the file; `latent` normal numbers make a row."""

    schema: TableSchema
    latent: int
    hidden: int
    weights: Mapping[str, FloatArray]

    def sample(self, count: int) -> EncodedTable:
        """`count` synthetic rows; a categorical column takes its likeliest category. Raises InvalidInput below 1."""
        if count < 1:
            raise InvalidInput("At least one row.", field="rows")
        draw = noise_generator()
        law = self.weights["class_sizes"].astype(np.float64)
        labels = draw.choice(len(law), size=count, p=law / law.sum())
        blocks = []
        for start in range(0, count, _BLOCK):
            classes = labels[start : start + _BLOCK]
            latent = draw.standard_normal((len(classes), self.latent), dtype=np.float32)
            blocks.append(self.codes(latent, classes))
        return EncodedTable(self.schema, np.concatenate(blocks), labels.astype(np.int16))

    def codes(self, latent: FloatArray, labels: npt.NDArray[np.int64]) -> CodeArray:
        """The rows of these latent numbers and classes: `[n, latent]`, `[n]` -> int16 `[n, columns]`."""
        classes = np.eye(self.schema.classes, dtype=np.float32)[labels]
        values = np.concatenate([latent, classes], axis=1)
        for layer in _LINEAR:
            values = values @ self.weights[f"body.{layer}.weight"].T + self.weights[f"body.{layer}.bias"]
            if layer + 1 in _NORMALISED:
                values = np.maximum(self._normalised(values, layer + 1), 0)
        codes = np.empty((len(labels), len(self.schema.columns)), dtype=np.int16)
        start = 0
        for j, column in enumerate(self.schema.columns):
            head = values[:, start : start + column.width]
            numeric = isinstance(column, NumericColumn)
            codes[:, j] = np.rint((np.tanh(head[:, 0]) + 1) / 2 * STEPS) if numeric else head.argmax(axis=1)
            start += column.width
        return codes

    def _normalised(self, values: FloatArray, layer: int) -> FloatArray:
        part = {
            name: self.weights[f"body.{layer}.{name}"] for name in ("weight", "bias", "running_mean", "running_var")
        }
        scale = part["weight"] / np.sqrt(part["running_var"] + np.float32(_NORMALISATION_EPSILON))
        normalised: FloatArray = (values - part["running_mean"]) * scale + part["bias"]
        return normalised

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        hidden, first = self.hidden, self.latent + self.schema.classes
        shapes: dict[str, tuple[int, ...]] = {"class_sizes": (self.schema.classes,)}
        for layer, (wide, narrow) in zip(
            _LINEAR, ((hidden, first), (hidden, hidden), (self.schema.width, hidden)), strict=True
        ):
            shapes |= {f"body.{layer}.weight": (wide, narrow), f"body.{layer}.bias": (wide,)}
        for layer in _NORMALISED:
            names = ("weight", "bias", "running_mean", "running_var")
            shapes |= {f"body.{layer}.{name}": (hidden,) for name in names}
        return shapes

    def check(self) -> None:
        """Raises ValueError for weights that are missing, of another shape, or not finite."""
        for name, shape in self._shapes().items():
            array = self.weights.get(name)
            if array is None or array.shape != shape:
                raise ValueError("the tensors are not those of the schema's generator")
            if not np.isfinite(array).all():
                raise ValueError("the generator holds a number that is not finite")
        sizes = self.weights["class_sizes"]
        if (sizes < 0).any() or not sizes.sum() > 0:
            raise ValueError("the classes have no sizes")


def stored_generator(facts: Mapping[str, Any], tensors: Mapping[str, FloatArray]) -> StoredGenerator:
    """The generator of a file's facts and tensors. Raises ValueError, LookupError or InvalidInput for what is none."""
    latent, hidden = facts.get("latent"), facts.get("hidden")
    if not isinstance(latent, int) or not isinstance(hidden, int):
        raise ValueError("the file's facts are not those of a generator")
    made = StoredGenerator(table_schema(facts["schema"]), latent, hidden, tensors)
    made.check()
    return made


def read_tensors(path: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A file's format, facts and arrays. Raises ValueError for what is no such file."""
    try:
        with safe_open(path, framework="np") as stream:
            metadata = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (no mapping)
        return metadata["format"], json.loads(metadata["info"]), tensors
    except (OSError, SafetensorError, LookupError, ValueError):
        raise ValueError("not a readable file of a known format") from None
