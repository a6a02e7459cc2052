"""Routes: the public data by which a sentence votes for a domain pack, one safetensors file.

Guarantee: everything in the file was computed from public text and from no private document. The file contains vectors
and names of packs, never text.

The loader uses safetensors' NumPy interface and does not import torch. All values from a file are validated before use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from core.mechanisms.sentences.domain_pack import (
    DIMENSION_MAX,
    FINGERPRINT,
    NAME,
    RANK_MAX,
    CodeArray,
    DomainPackInfo,
    InvalidPack,
    checked_array,
    checked_codes,
    described,
    integer,
    read_tensors,
    string,
)
from core.mechanisms.space import Space

FORMAT = "privacy-gateway/routes/1"
METADATA_KEY = "routes"
AUTO = "auto"  # the domain that chooses one of the packs for each document
CENTROIDS_MAX = 4_096
PACKS_MAX = 64
EVIDENCE_MAX = 64


@dataclass(frozen=True)
class RoutesInfo:
    """The facts of a routes file. `packs` are the names of the packs to choose from, `rank` is that of the space.

    `default` is one of the packs. It gets `default_percent` percent of a document's sentences as further votes
    (`core.mechanisms.sentences.routing`), and all documents of k sentences for which k times the epsilon of the choice
    is below `evidence_min` (`core.mechanisms.sentences.routing`).
    """

    encoder: str
    encoder_fingerprint: str
    dimension: int
    rank: int
    centroids: int
    packs: tuple[str, ...]
    default: str
    default_percent: int
    evidence_min: int
    source: str
    licence: str

    def fits(self, installed: Mapping[str, DomainPackInfo]) -> bool:
        """Whether every named pack is installed, and made for the encoder of the routes."""
        return all(
            name in installed
            and installed[name].encoder_fingerprint == self.encoder_fingerprint
            and installed[name].dimension == self.dimension
            for name in self.packs
        )

    @classmethod
    def read(cls, path: Path) -> RoutesInfo:
        """Load and check the file at `path`, and return its facts. Raises InvalidPack."""
        return Routes.load(path).info

    def as_json(self) -> dict[str, Any]:
        """Return the facts under the names that files and responses use."""
        return asdict(self) | {"packs": list(self.packs)}

    def metadata(self) -> dict[str, str]:
        """Return the header of a file with these facts. Raises InvalidPack for facts that could not be read back."""
        text = {METADATA_KEY: json.dumps({"format": FORMAT, **self.as_json()})}
        _checked_info(text)
        return text


@dataclass(frozen=True)
class Routes:
    """Loaded routes. All arrays are public.

    Shapes: `centroids` int8 `[n, r]` in the `space`; `owners` int64 `[n]`, the index of each centroid's pack.
    """

    info: RoutesInfo
    space: Space
    centroids: CodeArray
    owners: npt.NDArray[np.int64]

    @classmethod
    def load(cls, path: Path) -> Routes:
        """Load and check the file at `path`.

        Raises: InvalidPack for a malformed file, wrong shapes, a number that is not finite or not exact, and a centroid
        of no named pack.
        """
        info, raw = read_tensors(path, _checked_info, _shapes)
        space = Space(
            checked_codes(raw["space.directions"]),
            checked_array(raw["space.factor"]),
            checked_array(raw["space.shift"]),
        )
        if not space.is_exact():
            raise InvalidPack("the space's sums are not exact")
        owners = raw["owners"]
        if owners.dtype != np.uint8 or int(owners.max()) >= len(info.packs):
            raise InvalidPack("a centroid belongs to no pack")
        return cls(info, space, checked_codes(raw["centroids"]), owners.astype(np.int64))

    def save(self, path: Path) -> None:
        """Write the routes. Replaces `path` atomically."""
        tensors: dict[str, npt.NDArray[np.generic]] = {
            "space.directions": self.space.directions,
            "space.factor": self.space.factor,
            "space.shift": self.space.shift,
            "centroids": self.centroids,
            "owners": self.owners.astype(np.uint8),
        }
        partial = path.with_suffix(".partial")
        partial.write_bytes(save(tensors, metadata=self.info.metadata()))
        partial.replace(path)


def _shapes(info: RoutesInfo) -> dict[str, tuple[int, ...]]:
    d, r, n = info.dimension, info.rank, info.centroids
    return {"space.directions": (r, d), "space.factor": (r,), "space.shift": (r,), "centroids": (n, r), "owners": (n,)}


def _checked_info(metadata: Mapping[str, str] | None) -> RoutesInfo:
    """Validate and return the facts in a file's header. Raises InvalidPack."""
    facts = described(metadata, METADATA_KEY, (FORMAT,))
    packs, default = _pack_names(facts.get("packs")), string(facts, "default", NAME)
    if default not in packs:
        raise InvalidPack("`default` must be one of the packs")
    return RoutesInfo(
        encoder=string(facts, "encoder"),
        encoder_fingerprint=string(facts, "encoder_fingerprint", FINGERPRINT),
        dimension=integer(facts, "dimension", maximum=DIMENSION_MAX),
        rank=integer(facts, "rank", maximum=RANK_MAX),
        centroids=integer(facts, "centroids", maximum=CENTROIDS_MAX),
        packs=packs,
        default=default,
        default_percent=integer(facts, "default_percent", minimum=0, maximum=100),
        evidence_min=integer(facts, "evidence_min", minimum=0, maximum=EVIDENCE_MAX),
        source=string(facts, "source"),
        licence=string(facts, "licence"),
    )


def _pack_names(raw: object) -> tuple[str, ...]:
    names = raw if isinstance(raw, list) else []
    valid = {name for name in names if isinstance(name, str) and NAME.fullmatch(name) and name != AUTO}
    if not 2 <= len(valid) == len(names) <= PACKS_MAX:
        raise InvalidPack(f"`packs` must be 2 to {PACKS_MAX} different names")
    return tuple(names)
