"""Domain packs: the public data of sentence-level release, one safetensors file for each domain.

Guarantee: everything in a pack was computed from public text and from no private document. Codebooks, candidates,
centre, thresholds, projections and recoder are constants of the mechanisms. The file contains vectors and weights,
never text.

The facts of a pack (`DomainPackInfo`) are stored as JSON in the header of its file. All values from a file are
validated before use. The helpers that validate (`described`, `integer`, `string`) also serve `routes`.

The loader uses safetensors' NumPy interface and does not import torch, so that the front end lists packs.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from core.amounts import cost_nano
from core.mechanisms.space import CODE_MAX, Space

DECODED_CODES_MAX = 64  # with more codes, a network adds nothing to the linear map
DECODER_LAYERS = 3
LENGTH_FEATURES = 2  # 1/sqrt(k) and log(k)


def decoder_shapes(codes: int, hidden: int, dimension: int) -> list[tuple[int, int]]:
    """Return `(outputs, inputs)` of each layer for histograms of `codes` bins."""
    return [(hidden, 2 * codes + LENGTH_FEATURES), (hidden, hidden), (dimension, hidden)]


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
    none (`HistogramDecoder`). `short_codes` is the number of codes, by responses, for documents of at most
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


FloatArray = npt.NDArray[np.float32]
CodeArray = npt.NDArray[np.int8]

Layers = tuple[tuple[FloatArray, FloatArray], ...]

RECODER_LAYERS = 4

Info = TypeVar("Info")


@dataclass(frozen=True)
class CodeTable:
    """What the codes of one row of parameters represent. See `sentence_codes`.

    `offset` `[d]` and `vectors` `[N, d]`, float32. `decoder` has the pairs of weight and bias of a network
    (`HistogramDecoder`), or is empty. `short` is the table for documents of few sentences, if the row has one.
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
