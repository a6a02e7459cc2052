"""What a ready worker reports, for each role. All of it is public. This module does not import torch.

`as_json` returns the form that `GET /models` shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any


def _json(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class EncoderFacts:
    """`tokens_max`: longer texts are truncated. `packed`: sentences of several lengths share a call of the model;
    `tile_rows`: in tiles of this number of rows, None if the device does not need tiles. `fixed_batches`: batches are
    padded to fixed shapes, which is slower. `tokens_per_s`: measured when the worker started. `batch_invariant`: a
    sentence's vector does not depend on the other sentences of the batch. A worker where it does never serves.
    `fingerprint`: of the vectors, so that equal ones are of equal vectors. `packs_of`: of the weights, which packs are
    made for; None if it is `fingerprint`. `arithmetic`: a digest of the vectors of public sentences on this device."""

    name: str
    fingerprint: str
    dimension: int
    tokens_max: int
    device: str
    dtype: str
    packed: bool
    fixed_batches: bool
    tile_rows: int | None = None
    tokens_per_s: int = 0
    batch_invariant: bool = True
    packs_of: str | None = None
    arithmetic: str = ""


@dataclass(frozen=True)
class EmbedderFacts:
    """Facts of `Role.EMBED`. `vector_pack`: the name of the public axes and codebooks of the encoder's space, None if
    there are none. `unit`: what the sentence mechanisms protect."""

    encoder: EncoderFacts
    domains: tuple[str, ...]
    mechanisms: tuple[str, ...]
    vector_mechanisms: tuple[str, ...]
    vector_pack: str | None
    unit: str

    @property
    def computes(self) -> tuple[str, str]:
        """What workers of a role have in common, because the proofs need one vector of each sentence."""
        return self.encoder.fingerprint, self.encoder.arithmetic

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = _json(self)
        return found


@dataclass(frozen=True)
class InfillFacts:
    """The language model. `candidates`: the length of the public word list that `dp` draws from; None without a
    list."""

    name: str
    modes: tuple[str, ...]
    candidates: int | None
    candidates_fingerprint: str | None


@dataclass(frozen=True)
class WordVectorFacts:
    words: int
    dimension: int


@dataclass(frozen=True)
class TaggerFacts:
    """`types`: the entity types that the tagger finds, sorted."""

    name: str
    types: tuple[str, ...]
    device: str


@dataclass(frozen=True)
class SanitiserFacts:
    """Facts of `Role.SANITIZE` and, with `infill`, of `Role.FILL`. `thresholds`: the score threshold of each entity, in
    [0, 1]. `versions`: the versions of the recognisers' packages."""

    techniques: tuple[str, ...]
    fills: tuple[str, ...]
    infill: InfillFacts | None
    word_vectors: WordVectorFacts
    word_mechanisms: tuple[str, ...]
    tagger: TaggerFacts | None
    entities: tuple[str, ...]
    default_entities: tuple[str, ...]
    thresholds: Mapping[str, float]
    allow_lists: tuple[str, ...]
    versions: Mapping[str, str]

    @property
    def computes(self) -> tuple[str, str]:
        """Equal for all: no guarantee relies on the last bits of a tagger or a language model."""
        return "", ""

    def as_json(self) -> dict[str, Any]:
        """Return the facts; the key `infill` is absent if there is no language model."""
        found: dict[str, Any] = _json(self)
        if self.infill is None:
            del found["infill"]
        return found


WorkerFacts = EmbedderFacts | SanitiserFacts
