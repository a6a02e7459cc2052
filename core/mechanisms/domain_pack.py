"""Domain packs: the public side of sentence-level release, one safetensors file a domain.

Guarantee: everything in a pack was computed from public text and from no private document; candidates, centre,
thresholds, projections and recoder are constants of the mechanisms. The file holds vectors and weights, never text.

Reading goes through safetensors' NumPy side: the front end lists a pack's facts without importing torch.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from core.amounts import cost_nano

FloatArray = npt.NDArray[np.float32]

FORMAT = "privacy-gateway/domain-pack/1"
RECODER_LAYERS = 4
CANDIDATES_MAX = 65_536
DIMENSION_MAX = 8_192
PROJECTIONS_MAX = 4_096
FACTS_BYTES_MAX = 65_536
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_METADATA_KEY = "domain_pack"


class InvalidPack(ValueError):
    """A file that is no usable domain pack. The message names the fault, never the file's content."""


@dataclass(frozen=True)
class Knobs:
    """Public settings of both mechanisms from one epsilon on; chosen on public validation documents.

    `candidates` counts a prefix of the pack's candidates; `threshold` is a cosine in (0, 1].
    """

    epsilon: float
    threshold: float
    cosine_candidates: int
    projections: int
    depth_candidates: int


@dataclass(frozen=True)
class DomainPackInfo:
    """A pack's facts, without its vectors."""

    name: str
    encoder: str
    encoder_fingerprint: str
    dimension: int
    candidates: int
    projections: int
    source: str
    licence: str
    knobs: tuple[Knobs, ...]

    def knobs_for(self, epsilon_nano: int) -> Knobs:
        """The knobs of the largest tabulated epsilon not above this one, else of the smallest. Public in epsilon."""
        return self.knobs[max(0, bisect_right(self._epsilons_nano, epsilon_nano) - 1)]

    @cached_property
    def _epsilons_nano(self) -> list[int]:
        return [cost_nano(knobs.epsilon) for knobs in self.knobs]

    @classmethod
    def read(cls, path: Path) -> DomainPackInfo:
        """The facts of the pack at `path`; reads the file's header only. Raises InvalidPack."""
        try:
            with safe_open(path, framework="numpy") as file:
                return _checked_info(file.metadata())
        except (OSError, SafetensorError):
            raise InvalidPack("the file is not a readable safetensors file") from None


@dataclass(frozen=True)
class DomainPack:
    """A loaded pack. All arrays float32 and finite, read-only.

    Shapes: `candidates` (mean embeddings of public documents, encoder space) and `recoded` (the same documents'
    mean recoded sentence embeddings) `[m, d]`; `centre` `[d]`; `projections` (unit rows, drawn once and published)
    `[p, d]`; `recoder` pairs of weight `[d, d]` and bias `[d]`, ReLU between them.
    """

    info: DomainPackInfo
    candidates: FloatArray
    centre: FloatArray
    recoded: FloatArray
    projections: FloatArray
    recoder: tuple[tuple[FloatArray, FloatArray], ...]

    @classmethod
    def load(cls, path: Path, *, encoder_fingerprint: str | None = None) -> DomainPack:
        """Load and check the pack at `path`.

        Raises: InvalidPack for a malformed file, wrong dimensions, a number that is not finite, and, where
        `encoder_fingerprint` is given, for a pack of another encoder.
        """
        try:
            with safe_open(path, framework="numpy") as file:
                info = _checked_info(file.metadata())
                if encoder_fingerprint is not None and encoder_fingerprint != info.encoder_fingerprint:
                    raise InvalidPack("the pack was made for another encoder")
                shapes = _shapes(info)
                if set(file.keys()) != set(shapes):
                    raise InvalidPack("the pack's tensors are not those of its format")
                for name, shape in shapes.items():
                    if tuple(file.get_slice(name).get_shape()) != shape:
                        raise InvalidPack("a tensor has a wrong shape")
                arrays = {name: _checked_array(file.get_tensor(name)) for name in shapes}
        except (OSError, SafetensorError, TypeError):
            raise InvalidPack("the file is not a readable safetensors file") from None
        return cls(
            info=info,
            candidates=arrays["candidates"],
            centre=arrays["centre"],
            recoded=arrays["recoded"],
            projections=arrays["projections"],
            recoder=tuple((arrays[f"recoder.{i}.weight"], arrays[f"recoder.{i}.bias"]) for i in range(RECODER_LAYERS)),
        )

    def save(self, path: Path) -> None:
        """Write the pack, vectors and weights in float16, replacing `path` atomically."""
        tensors = {
            "candidates": self.candidates,
            "centre": self.centre,
            "recoded": self.recoded,
            "projections": self.projections,
        }
        for i, (weight, bias) in enumerate(self.recoder):
            tensors[f"recoder.{i}.weight"] = weight
            tensors[f"recoder.{i}.bias"] = bias
        half = {name: np.ascontiguousarray(array, dtype=np.float16) for name, array in tensors.items()}
        facts = json.dumps({"format": FORMAT, **asdict(self.info)})
        _checked_info({_METADATA_KEY: facts})
        partial = path.with_suffix(".partial")
        partial.write_bytes(save(half, metadata={_METADATA_KEY: facts}))
        partial.replace(path)


def _shapes(info: DomainPackInfo) -> dict[str, tuple[int, ...]]:
    m, d, p = info.candidates, info.dimension, info.projections
    shapes: dict[str, tuple[int, ...]] = {
        "candidates": (m, d),
        "recoded": (m, d),
        "centre": (d,),
        "projections": (p, d),
    }
    for i in range(RECODER_LAYERS):
        shapes[f"recoder.{i}.weight"] = (d, d)
        shapes[f"recoder.{i}.bias"] = (d,)
    return shapes


def _checked_array(array: npt.NDArray[np.generic]) -> FloatArray:
    if array.dtype not in (np.float16, np.float32):
        raise InvalidPack("a tensor is neither float16 nor float32")
    wide: FloatArray = array.astype(np.float32)
    if not np.isfinite(wide).all():
        raise InvalidPack("a tensor has a number that is not finite")
    wide.setflags(write=False)
    return wide


def _integer(facts: Mapping[str, object], key: str, *, maximum: int) -> int:
    value = facts.get(key)
    if type(value) is not int or not 1 <= value <= maximum:
        raise InvalidPack(f"`{key}` must be an integer between 1 and {maximum}")
    return value


def _number(facts: Mapping[str, object], key: str, *, maximum: float) -> float:
    value = facts.get(key)
    if type(value) not in (int, float) or not math.isfinite(float(str(value))) or not 0 < float(str(value)) <= maximum:
        raise InvalidPack(f"`{key}` must be a positive number of at most {maximum}")
    return float(str(value))


def _string(facts: Mapping[str, object], key: str, pattern: re.Pattern[str] | None = None) -> str:
    value = facts.get(key)
    if not isinstance(value, str) or not value or len(value) > 4096 or (pattern and not pattern.fullmatch(value)):
        raise InvalidPack(f"`{key}` is missing or malformed")
    return value


def _checked_knobs(raw: object, *, candidates: int, projections: int) -> tuple[Knobs, ...]:
    if not isinstance(raw, list) or not raw:
        raise InvalidPack("`knobs` is missing")
    table = []
    for row in raw:
        if not isinstance(row, dict):
            raise InvalidPack("`knobs` is malformed")
        table.append(
            Knobs(
                epsilon=_number(row, "epsilon", maximum=4_000_000),
                threshold=_number(row, "threshold", maximum=1.0),
                cosine_candidates=_integer(row, "cosine_candidates", maximum=candidates),
                projections=_integer(row, "projections", maximum=projections),
                depth_candidates=_integer(row, "depth_candidates", maximum=candidates),
            )
        )
    if any(a.epsilon >= b.epsilon for a, b in pairwise(table)):
        raise InvalidPack("`knobs` must ascend in epsilon")
    return tuple(table)


def _checked_info(metadata: Mapping[str, str] | None) -> DomainPackInfo:
    text = (metadata or {}).get(_METADATA_KEY, "")
    if not text or len(text) > FACTS_BYTES_MAX:
        raise InvalidPack("the file does not describe a domain pack")
    try:
        facts = json.loads(text)
    except ValueError:
        raise InvalidPack("the pack's description is not JSON") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise InvalidPack("the file is of another format or version")
    candidates = _integer(facts, "candidates", maximum=CANDIDATES_MAX)
    projections = _integer(facts, "projections", maximum=PROJECTIONS_MAX)
    return DomainPackInfo(
        name=_string(facts, "name", _NAME),
        encoder=_string(facts, "encoder"),
        encoder_fingerprint=_string(facts, "encoder_fingerprint", _FINGERPRINT),
        dimension=_integer(facts, "dimension", maximum=DIMENSION_MAX),
        candidates=candidates,
        projections=projections,
        source=_string(facts, "source"),
        licence=_string(facts, "licence"),
        knobs=_checked_knobs(facts.get("knobs"), candidates=candidates, projections=projections),
    )
