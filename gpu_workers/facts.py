"""What a warm worker reports of itself, for each role. All of it is public. Light: without torch.

`as_json` gives it as `GET /models` shows it.
"""

from __future__ import annotations

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
    """`tokens_max`: longer texts are cut. `batch_invariant`: a sentence's vector does not depend on its companions in
    the batch; a worker where it does never serves."""

    name: str
    fingerprint: str
    dimension: int
    tokens_max: int
    device: str
    dtype: str
    packed: bool
    fixed_batches: bool
    batch_invariant: bool = True


@dataclass(frozen=True)
class EmbedderFacts:
    """Of `Role.EMBED`. `vector_pack`: the name of the public axes and codebooks of the encoder's space; None where
    there are none. `unit`: what the sentence mechanisms protect."""

    encoder: EncoderFacts
    domains: tuple[str, ...]
    mechanisms: tuple[str, ...]
    vector_mechanisms: tuple[str, ...]
    vector_pack: str | None
    unit: str

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = _json(self)
        return found


@dataclass(frozen=True)
class InfillFacts:
    """The language model. `candidates`: how many words the public list holds that `dp` draws from; None without one."""

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
    """`types`: the entities that it finds, sorted."""

    name: str
    types: tuple[str, ...]
    device: str


@dataclass(frozen=True)
class SanitiserFacts:
    """Of `Role.SANITIZE` and, with `infill`, of `Role.FILL`. `thresholds`: each entity's, in [0, 1]. `versions`: of
    the packages that recognise."""

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

    def as_json(self) -> dict[str, Any]:
        """Without `infill` where there is none."""
        found: dict[str, Any] = _json(self)
        if self.infill is None:
            del found["infill"]
        return found


WorkerFacts = EmbedderFacts | SanitiserFacts
