"""Domain packs: the public data of sentence-level release, one safetensors file for each domain.

Guarantee: everything in a pack was computed from public text and from no private document. Codebooks, candidates,
centre, thresholds, projections and recoder are constants of the mechanisms. The file contains vectors and weights,
never text.

The loader uses safetensors' NumPy interface and does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from core.mechanisms.sentences.decoder_shapes import DECODER_LAYERS, decoder_shapes
from core.mechanisms.sentences.pack_facts import (
    CodeNoise,
    DomainPackInfo,
    InvalidPack,
    MechanismParameters,
    checked_info,
)
from core.mechanisms.space import CODE_MAX, Space

FloatArray = npt.NDArray[np.float32]
CodeArray = npt.NDArray[np.int8]

Layers = tuple[tuple[FloatArray, FloatArray], ...]

RECODER_LAYERS = 4

Info = TypeVar("Info")


@dataclass(frozen=True)
class CodeTable:
    """What the codes of one row of parameters represent. See `sentence_codes`.

    `offset` `[d]` and `vectors` `[N, d]`, float32. `decoder` has the pairs of weight and bias of a network
    (`histogram_decoder`), or is empty. `short` is the table for documents of few sentences, if the row has one.
    """

    noise: CodeNoise
    vectors: FloatArray
    offset: FloatArray
    decoder: Layers = ()
    short: CodeTable | None = None

    @property
    def size(self) -> int:
        return len(self.vectors)


@dataclass(frozen=True)
class DomainPack:
    """A loaded pack. All arrays are finite and read-only, and float32 except for the integers of space and codebooks.

    Shapes: `codebooks` maps N to centroids `[N, r]` in the `space`. `code_tables` has one table for each row of the
    parameters. `candidates` (mean embeddings of public documents, encoder space) and `recoded` (the same documents'
    mean recoded sentence embeddings) are `[m, d]`, `centre` is `[d]`, `projections` (unit rows, drawn once and
    published) is `[p, d]`. `recoder` has pairs of weight `[d, d]` and bias `[d]`, with ReLU between them.
    """

    info: DomainPackInfo
    space: Space
    codebooks: Mapping[int, CodeArray]
    code_tables: tuple[CodeTable, ...]
    candidates: FloatArray
    centre: FloatArray
    recoded: FloatArray
    projections: FloatArray
    recoder: Layers

    def code_table(self, epsilon_nano: int) -> CodeTable:
        """Return the table for this epsilon."""
        return self.code_tables[self.info.row_for(epsilon_nano)]

    @classmethod
    def load(cls, path: Path, *, encoder_fingerprint: str | None = None) -> DomainPack:
        """Load and check the pack at `path`.

        Raises: InvalidPack for a malformed file, wrong dimensions, a number that is not finite or not exact, and, if
        `encoder_fingerprint` is given, for a pack of another encoder.
        """

        def described(metadata: Mapping[str, str] | None) -> DomainPackInfo:
            info = checked_info(metadata)
            if encoder_fingerprint is not None and encoder_fingerprint != info.encoder_fingerprint:
                raise InvalidPack("the pack was made for another encoder")
            return info

        info, raw = read_tensors(path, described, _shapes)
        integers = {name: checked_codes(array) for name, array in raw.items() if _is_integer(name)}
        floats = {name: checked_array(array) for name, array in raw.items() if not _is_integer(name)}
        space = Space(integers["space.directions"], floats["space.factor"], floats["space.shift"])
        if not space.is_exact():
            raise InvalidPack("the space's sums are not exact")
        return cls(
            info=info,
            space=space,
            codebooks={size: integers[f"codebook.{size}"] for size in info.codebook_sizes},
            code_tables=tuple(
                _table(f"codes.{i}", parameters, floats) for i, parameters in enumerate(info.mechanism_parameters)
            ),
            candidates=floats["candidates"],
            centre=floats["centre"],
            recoded=floats["recoded"],
            projections=floats["projections"],
            recoder=_layers(floats, "recoder", RECODER_LAYERS),
        )

    def save(self, path: Path) -> None:
        """Write the pack with vectors and weights in float16. Replaces `path` atomically."""
        halves = {
            "candidates": self.candidates,
            "centre": self.centre,
            "recoded": self.recoded,
            "projections": self.projections,
        }
        networks = {"recoder": self.recoder}
        tables = {f"codes.{i}": table for i, table in enumerate(self.code_tables)}
        tables |= {f"{name}.short": table.short for name, table in tables.items() if table.short is not None}
        for name, table in tables.items():
            halves |= {f"{name}.vectors": table.vectors, f"{name}.offset": table.offset}
            networks[f"{name}.decoder"] = table.decoder
        for name, layers in networks.items():
            for j, (weight, bias) in enumerate(layers):
                halves |= {f"{name}.{j}.weight": weight, f"{name}.{j}.bias": bias}
        tensors: dict[str, npt.NDArray[np.generic]] = {
            name: np.ascontiguousarray(array, dtype=np.float16) for name, array in halves.items()
        }
        tensors |= {f"codebook.{size}": codes for size, codes in self.codebooks.items()}
        tensors |= {
            "space.directions": self.space.directions,
            "space.factor": self.space.factor,
            "space.shift": self.space.shift,
        }
        partial = path.with_suffix(".partial")
        partial.write_bytes(save(tensors, metadata=self.info.metadata()))
        partial.replace(path)


def read_tensors(
    path: Path,
    described: Callable[[Mapping[str, str] | None], Info],
    shapes_of: Callable[[Info], Mapping[str, tuple[int, ...]]],
) -> tuple[Info, dict[str, npt.NDArray[np.generic]]]:
    """Return the facts of a safetensors file and all of its tensors, which have the names and shapes of `shapes_of`.

    `described` validates the facts in the file's header. Raises: InvalidPack.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            info = described(file.metadata())
            shapes = shapes_of(info)
            if set(file.keys()) != set(shapes):
                raise InvalidPack("the tensors are not those of the format")
            for name, shape in shapes.items():
                if tuple(file.get_slice(name).get_shape()) != shape:
                    raise InvalidPack("a tensor has a wrong shape")
            return info, {name: file.get_tensor(name) for name in shapes}
    except (OSError, SafetensorError, TypeError, AttributeError):  # the last two for a type that NumPy does not have
        raise InvalidPack("the file is not a readable safetensors file") from None


def _is_integer(name: str) -> bool:
    return name == "space.directions" or name.startswith("codebook.")


def _shapes(info: DomainPackInfo) -> dict[str, tuple[int, ...]]:
    m, d, p, r = info.candidates, info.dimension, info.projections, info.rank
    shapes: dict[str, tuple[int, ...]] = {
        "candidates": (m, d),
        "recoded": (m, d),
        "centre": (d,),
        "projections": (p, d),
        "space.directions": (r, d),
        "space.factor": (r,),
        "space.shift": (r,),
    }
    for i in range(RECODER_LAYERS):
        shapes |= {f"recoder.{i}.weight": (d, d), f"recoder.{i}.bias": (d,)}
    for size in info.codebook_sizes:
        shapes[f"codebook.{size}"] = (size, r)
    for i, parameters in enumerate(info.mechanism_parameters):
        shapes |= _table_shapes(f"codes.{i}", parameters.codes, parameters.decoder, d)
        if parameters.short_codes:
            shapes |= _table_shapes(f"codes.{i}.short", parameters.short_codes, parameters.decoder, d)
    return shapes


def _table_shapes(name: str, codes: int, hidden: int, dimension: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {f"{name}.vectors": (codes, dimension), f"{name}.offset": (dimension,)}
    if hidden:
        for j, (outputs, inputs) in enumerate(decoder_shapes(codes, hidden, dimension)):
            shapes |= {f"{name}.decoder.{j}.weight": (outputs, inputs), f"{name}.decoder.{j}.bias": (outputs,)}
    return shapes


def _table(name: str, parameters: MechanismParameters, floats: Mapping[str, FloatArray]) -> CodeTable:
    layers = DECODER_LAYERS if parameters.decoder else 0

    def table(name: str, noise: CodeNoise, short: CodeTable | None = None) -> CodeTable:
        vectors, offset = floats[f"{name}.vectors"], floats[f"{name}.offset"]
        return CodeTable(noise, vectors, offset, _layers(floats, f"{name}.decoder", layers), short)

    short = table(f"{name}.short", CodeNoise.RESPONSES) if parameters.short_codes else None
    return table(name, parameters.code_noise, short)


def _layers(floats: Mapping[str, FloatArray], name: str, count: int) -> Layers:
    return tuple((floats[f"{name}.{j}.weight"], floats[f"{name}.{j}.bias"]) for j in range(count))


def checked_codes(array: npt.NDArray[np.generic]) -> CodeArray:
    """Return a read-only copy, int8 from -127 to 127. Raises InvalidPack for any other array."""
    if array.dtype != np.int8 or int(array.min()) < -CODE_MAX:
        raise InvalidPack(f"a tensor does not hold integers from -{CODE_MAX} to {CODE_MAX}")
    codes: CodeArray = array.astype(np.int8)
    codes.setflags(write=False)
    return codes


def checked_array(array: npt.NDArray[np.generic]) -> FloatArray:
    """Return a read-only float32 copy. Raises InvalidPack for a type other than float, or for a non-finite number."""
    if array.dtype not in (np.float16, np.float32):
        raise InvalidPack("a tensor is neither float16 nor float32")
    wide: FloatArray = array.astype(np.float32)
    if not np.isfinite(wide).all():
        raise InvalidPack("a tensor has a number that is not finite")
    wide.setflags(write=False)
    return wide
