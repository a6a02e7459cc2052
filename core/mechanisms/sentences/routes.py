"""Routes: the public data by which a sentence votes for a domain pack, one safetensors file.

Guarantee: everything in the file was computed from public text and from no private document. The file contains vectors
and names of packs, never text.

The loader uses safetensors' NumPy interface and does not import torch. All values from a file are validated before use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from core.mechanisms.sentences.domain_pack import CodeArray, checked_array, checked_codes
from core.mechanisms.sentences.pack_facts import DIMENSION_MAX, FACTS_BYTES_MAX, RANK_MAX, DomainPackInfo, InvalidPack
from core.mechanisms.space import Space

FORMAT = "privacy-gateway/routes/1"
METADATA_KEY = "routes"
AUTO = "auto"  # the domain that chooses one of the packs for each document
CENTROIDS_MAX = 4_096
PACKS_MAX = 64
EVIDENCE_MAX = 64
_INTEGERS = {"dimension": DIMENSION_MAX, "rank": RANK_MAX, "centroids": CENTROIDS_MAX}
_STRINGS = ("encoder", "source", "licence")
_STRING_MAX = 4_096
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class RoutesInfo:
    """The facts of a routes file. `packs` are the names of the packs to choose from, `rank` is that of the space.

    `default` is one of the packs. It gets `default_percent` percent of a document's sentences as further votes
    (`core.mechanisms.sentences.routing`), and all documents of k sentences for which k times the epsilon of the choice
    is below `evidence_min` (`core.mechanisms.sentences.routed_codes`).
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
        try:
            with safe_open(path, framework="numpy") as file:
                info = _checked_info(file.metadata())
                shapes = _shapes(info)
                if set(file.keys()) != set(shapes):
                    raise InvalidPack("the tensors are not those of the format")
                for name, shape in shapes.items():
                    if tuple(file.get_slice(name).get_shape()) != shape:
                        raise InvalidPack("a tensor has a wrong shape")
                raw = {name: file.get_tensor(name) for name in shapes}
        except (OSError, SafetensorError, TypeError):
            raise InvalidPack("the file is not a readable safetensors file") from None
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
    return {
        "space.directions": (r, d),
        "space.factor": (r,),
        "space.shift": (r,),
        "centroids": (n, r),
        "owners": (n,),
    }


def _checked_info(metadata: Mapping[str, str] | None) -> RoutesInfo:
    """Validate and return the facts in a file's header. Raises InvalidPack."""
    text = (metadata or {}).get(METADATA_KEY, "")
    if not text or len(text) > FACTS_BYTES_MAX:
        raise InvalidPack("the file does not describe routes")
    try:
        facts = json.loads(text)
    except ValueError:
        raise InvalidPack("the description of the routes is not JSON") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise InvalidPack("the file is of another format or version")
    for key, maximum in _INTEGERS.items():
        if type(facts.get(key)) is not int or not 1 <= facts[key] <= maximum:
            raise InvalidPack(f"`{key}` must be an integer between 1 and {maximum}")
    for key in _STRINGS:
        if not isinstance(facts.get(key), str) or not 0 < len(facts[key]) <= _STRING_MAX:
            raise InvalidPack(f"`{key}` is missing or malformed")
    if not _FINGERPRINT.fullmatch(str(facts.get("encoder_fingerprint"))):
        raise InvalidPack("`encoder_fingerprint` is missing or malformed")
    packs, percent = facts.get("packs"), facts.get("default_percent")
    if not isinstance(packs, list) or not _are_names(packs):
        raise InvalidPack(f"`packs` must be 2 to {PACKS_MAX} different names")
    if facts.get("default") not in packs or type(percent) is not int or not 0 <= percent <= 100:
        raise InvalidPack("`default` must be one of the packs, and `default_percent` an integer from 0 to 100")
    evidence = facts.get("evidence_min")
    if type(evidence) is not int or not 0 <= evidence <= EVIDENCE_MAX:
        raise InvalidPack(f"`evidence_min` must be an integer from 0 to {EVIDENCE_MAX}")
    own = (*_INTEGERS, *_STRINGS, "encoder_fingerprint", "default", "default_percent", "evidence_min")
    return RoutesInfo(
        **{key: facts[key] for key in own},
        packs=tuple(packs),
    )


def _are_names(packs: list[object]) -> bool:
    names: Iterable[str] = (str(name) for name in packs if isinstance(name, str))
    return 2 <= len(packs) <= PACKS_MAX and len(
        {name for name in names if _NAME.fullmatch(name) and name != AUTO}
    ) == len(packs)
