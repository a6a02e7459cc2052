"""The facts of a domain pack, stored as JSON in the header of its safetensors file.

All values from a file are validated before use. The front end lists these facts without importing torch. The helpers
that validate (`described`, `integer`, `string`) also serve `routes`.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from core.amounts import cost_nano
from core.mechanisms.sentences.decoder_shapes import DECODED_CODES_MAX

FORMAT = "privacy-gateway/domain-pack/3"
_FORMAT_WITHOUT_DECODERS = "privacy-gateway/domain-pack/2"
CANDIDATES_MAX = 65_536
CODES_MAX = 65_536
RANK_MAX = 1_024
DIMENSION_MAX = 8_192
PROJECTIONS_MAX = 4_096
DECODER_MAX = 1_024
SHORT_SENTENCES_MAX = 64
SHORT_CODES_MIN = 5  # with fewer, the price of counts covers no responses (`sentence_codes`)
FACTS_BYTES_MAX = 65_536
METADATA_KEY = "domain_pack"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class InvalidPack(ValueError):
    """The file is not a usable domain pack. The message names the fault and contains nothing of the file."""


class CodeNoise(StrEnum):
    """The noise of `sentence_codes`: randomised response for each sentence's code, or noise on a document's counts."""

    RESPONSES = "responses"
    COUNTS = "counts"


@dataclass(frozen=True)
class MechanismParameters:
    """Public settings of all mechanisms from one epsilon on, chosen on public validation documents.

    `codes`, `code_noise` and `decoder` are for `sentence_codes`; `threshold`, a cosine in (0, 1], and
    `cosine_candidates` for `clipped_cosine`; `projections` and `depth_candidates` for `deep_candidate`. Candidates are
    a prefix of the pack's. `decoder` is the number of hidden units of the network that decodes noisy histograms, 0 for
    none (`histogram_decoder`). `short_codes` is the number of codes, by responses, for documents of at most
    `short_sentences` sentences; both are 0 if the row has no such codes.
    """

    epsilon: float
    codes: int
    code_noise: CodeNoise
    threshold: float
    cosine_candidates: int
    projections: int
    depth_candidates: int
    decoder: int = 0
    short_sentences: int = 0
    short_codes: int = 0


@dataclass(frozen=True)
class DomainPackInfo:
    """The facts of a pack, without its vectors. `rank` is the dimension of the space of its codes."""

    name: str
    encoder: str
    encoder_fingerprint: str
    dimension: int
    rank: int
    candidates: int
    projections: int
    source: str
    licence: str
    mechanism_parameters: tuple[MechanismParameters, ...]

    def row_for(self, epsilon_nano: int) -> int:
        """Return the row number in `mechanism_parameters` for this epsilon, a function of public numbers.

        It is the row with the largest tabulated epsilon that is not above it, else the smallest.
        """
        return max(0, bisect_right(self._epsilons_nano, epsilon_nano) - 1)

    def parameters_for(self, epsilon_nano: int) -> MechanismParameters:
        """Return the parameters of `row_for`."""
        return self.mechanism_parameters[self.row_for(epsilon_nano)]

    @property
    def codebook_sizes(self) -> tuple[int, ...]:
        """The sizes of the codebooks in the parameters, ascending."""
        rows = self.mechanism_parameters
        return tuple(sorted({row.codes for row in rows} | {row.short_codes for row in rows if row.short_codes}))

    @cached_property
    def _epsilons_nano(self) -> list[int]:
        return [cost_nano(parameters.epsilon) for parameters in self.mechanism_parameters]

    @classmethod
    def read(cls, path: Path) -> DomainPackInfo:
        """Read the facts of the pack at `path` from the file's header. Raises InvalidPack."""
        try:
            with safe_open(path, framework="numpy") as file:
                return checked_info(file.metadata())
        except (OSError, SafetensorError):
            raise InvalidPack("the file is not a readable safetensors file") from None

    def as_json(self) -> dict[str, Any]:
        """Return the facts under the names that files and responses use."""
        facts = asdict(self)
        return facts | {"knobs": facts.pop("mechanism_parameters")}

    def metadata(self) -> dict[str, str]:
        """Return the header of a file with these facts. Raises InvalidPack for facts that could not be read back."""
        text = {METADATA_KEY: json.dumps({"format": FORMAT, **self.as_json()})}
        checked_info(text)
        return text


def described(metadata: Mapping[str, str] | None, key: str, formats: tuple[str, ...]) -> dict[str, object]:
    """Return the facts under `key` of a file's header, which are of one of the `formats`. Raises InvalidPack."""
    text = (metadata or {}).get(key, "")
    if not text or len(text) > FACTS_BYTES_MAX:
        raise InvalidPack(f"the file has no description under `{key}`")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidPack(f"the description under `{key}` is not JSON") from None
    if not isinstance(facts, dict) or facts.get("format") not in formats:
        raise InvalidPack("the file is of another format or version")
    return facts


def integer(facts: Mapping[str, object], key: str, *, maximum: int, minimum: int = 1) -> int:
    """Return the integer under `key`. Raises InvalidPack."""
    value = facts.get(key)
    if type(value) is not int or not minimum <= value <= maximum:
        raise InvalidPack(f"`{key}` must be an integer from {minimum} to {maximum}")
    return value


def _number(facts: Mapping[str, object], key: str, *, maximum: float) -> float:
    value = facts.get(key)
    if type(value) not in (int, float) or not math.isfinite(float(str(value))) or not 0 < float(str(value)) <= maximum:
        raise InvalidPack(f"`{key}` must be a positive number of at most {maximum}")
    return float(str(value))


def string(facts: Mapping[str, object], key: str, pattern: re.Pattern[str] | None = None) -> str:
    """Return the string under `key`, which UTF-8 can encode and `pattern` matches. Raises InvalidPack."""
    value = facts.get(key)
    if not isinstance(value, str) or not value or len(value) > 4096 or (pattern and not pattern.fullmatch(value)):
        raise InvalidPack(f"`{key}` is missing or malformed")
    try:
        value.encode()
    except UnicodeEncodeError:  # an unpaired surrogate, which no response could contain
        raise InvalidPack(f"`{key}` is missing or malformed") from None
    return value


def _decoder(row: Mapping[str, object], codes: int) -> int:
    if row.get("decoder", 0) == 0:
        return 0
    if codes > DECODED_CODES_MAX:
        raise InvalidPack(f"a decoder takes at most {DECODED_CODES_MAX} codes")
    return integer(row, "decoder", maximum=DECODER_MAX)


def _short(row: Mapping[str, object]) -> tuple[int, int]:
    """Return the sentences and codes of short documents, 0 and 0 for none."""
    if row.get("short_sentences", 0) == 0:
        return 0, 0
    codes = integer(row, "short_codes", minimum=SHORT_CODES_MIN, maximum=DECODED_CODES_MAX)
    return integer(row, "short_sentences", maximum=SHORT_SENTENCES_MAX), codes


def _code_noise(row: Mapping[str, object]) -> CodeNoise:
    try:
        return CodeNoise(str(row.get("code_noise")))
    except ValueError:
        raise InvalidPack("`code_noise` must be one of its kinds") from None


def _checked_parameters(raw: object, *, candidates: int, projections: int) -> tuple[MechanismParameters, ...]:
    if not isinstance(raw, list) or not raw:
        raise InvalidPack("`knobs` is missing")
    table = []
    for row in raw:
        if not isinstance(row, dict):
            raise InvalidPack("`knobs` is malformed")
        codes = integer(row, "codes", minimum=2, maximum=CODES_MAX)
        short_sentences, short_codes = _short(row)
        table.append(
            MechanismParameters(
                epsilon=_number(row, "epsilon", maximum=4_000_000),
                codes=codes,
                code_noise=_code_noise(row),
                threshold=_number(row, "threshold", maximum=1.0),
                cosine_candidates=integer(row, "cosine_candidates", maximum=candidates),
                projections=integer(row, "projections", maximum=projections),
                depth_candidates=integer(row, "depth_candidates", maximum=candidates),
                decoder=_decoder(row, codes),
                short_sentences=short_sentences,
                short_codes=short_codes,
            )
        )
    if any(a.epsilon >= b.epsilon for a, b in pairwise(table)):
        raise InvalidPack("`knobs` must ascend in epsilon")
    return tuple(table)


def checked_info(metadata: Mapping[str, str] | None) -> DomainPackInfo:
    """Validate and return the facts in a file's header. Raises InvalidPack."""
    facts = described(metadata, METADATA_KEY, (FORMAT, _FORMAT_WITHOUT_DECODERS))
    candidates = integer(facts, "candidates", maximum=CANDIDATES_MAX)
    projections = integer(facts, "projections", maximum=PROJECTIONS_MAX)
    return DomainPackInfo(
        name=string(facts, "name", NAME),
        encoder=string(facts, "encoder"),
        encoder_fingerprint=string(facts, "encoder_fingerprint", FINGERPRINT),
        dimension=integer(facts, "dimension", maximum=DIMENSION_MAX),
        rank=integer(facts, "rank", maximum=RANK_MAX),
        candidates=candidates,
        projections=projections,
        source=string(facts, "source"),
        licence=string(facts, "licence"),
        mechanism_parameters=_checked_parameters(facts.get("knobs"), candidates=candidates, projections=projections),
    )
