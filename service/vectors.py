"""Private vectors, from a request's parameters to a `ReleaseRequest`; every route that releases vectors builds on this.

`vector_price` decides the spec and what one vector costs; `text_batch`, `vector_batch` and `file_batch` check what is
to be released; `vector_release` puts them together. All of it comes before anything is reserved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import orjson
from pydantic import Field

from core.accounting.events import PrivacyEvent
from core.errors import InvalidInput
from core.ledger.records import Charge
from core.mechanisms.vectors.pricing import vector_events, vector_facts
from core.mechanisms.vectors.spec import VectorSpec, vector_spec
from gpu_workers.engine.arrays import Array, BlockArray
from gpu_workers.engine.facts import embedder_facts
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.tasks import VectorTask
from service.house import House
from service.projections import norm_bound_of
from service.release import JSON, ReleaseRequest, Rendered
from service.reuse import Part, Parts
from service.settings import Settings
from service.strict import Strict

FLOAT32, FLOAT64 = "float32", "float64"
_FLOAT16_MAGNITUDE, _FLOAT16_INFINITY = np.uint16(0x7FFF), 0x7C00
# What is promised at epsilon, or at `epsilon_worst_case`. Each text is one vector: replacing a token of it changes one.
_OF_TEXTS = {"units": ["vector", "sentence", "token"], "public": ["number of texts"]}
_OF_VECTORS = {"units": ["vector"], "public": ["number of vectors"]}
_CHECKED_AT_ONCE = 1 << 18  # numbers: half a megabyte, which stays in the cache


class VectorParameters(Strict):
    """How vectors are released: what every body that asks for it may say."""

    epsilon: float = Field(
        gt=0, description="Of each vector: per unit of distance for privemb and laplace, in total for the others."
    )
    mechanism: Literal["privemb", "laplace", "privunit", "codebook"] | None = Field(
        None, description="Default: codebook for texts, privemb for vectors."
    )
    dimension: int | None = Field(None, ge=1, description="Of the released vectors.")
    clip_norm: float | None = Field(None, gt=0, description="Longer vectors are clipped to it; default 1.")
    projection: Literal["orthonormal", "gaussian", "identity", "pca"] | None = Field(
        None, description="Default: by mechanism; pca for texts whose mechanism is not named."
    )
    strict: bool = Field(True, description="false: the paper's form of privemb, which `beta` and `delta` describe.")
    beta: float | None = None
    delta: float | None = None
    subject: str | None = Field(None, min_length=1, max_length=256)


@dataclass(frozen=True)
class VectorPrice:
    """A spec, the events that each vector costs, and what an answer's privacy block says beside them."""

    spec: VectorSpec
    events: tuple[PrivacyEvent, ...]
    facts: dict[str, Any]

    def charges(self, *, rows: int, subject: str | None) -> list[Charge]:
        return [Charge(event, subject, times=rows) for event in self.events]


@dataclass(frozen=True)
class VectorBatch:
    """What is to be released, checked: texts, or vectors in a block of the engine."""

    rows: int
    texts: tuple[str, ...] | None = None
    vectors: BlockArray | None = None


async def vector_price(
    here: House, *, tenant: str, params: VectorParameters, rows: int, dimension: int | None = None
) -> VectorPrice:
    """What releasing each of `rows` vectors of `dimension` numbers, or of as many texts, costs this tenant.

    Looks at no vector. A Gaussian projection is made here, because its spectral norm is in the price.
    Raises InvalidInput, and for texts WorkerCold.
    """
    promise = _OF_VECTORS
    if dimension is None:
        params, dimension = _of_texts(here, params)
        promise = _OF_TEXTS
    settings = here.settings
    rows_max = settings.vectors_max if params.mechanism != "codebook" else settings.codebook_vectors_max
    if rows > rows_max:
        raise InvalidInput(f"at most {rows_max} vectors a call by this mechanism", field="vectors")
    if not settings.epsilon_min <= params.epsilon <= settings.epsilon_max:
        raise InvalidInput(
            f"epsilon must be between {settings.epsilon_min:g} and {settings.epsilon_max:g}", field="epsilon"
        )
    if dimension > settings.vector_dimension_max:
        raise InvalidInput(f"at most {settings.vector_dimension_max} dimensions a vector", field="vectors")
    spec = vector_spec(
        mechanism=params.mechanism or "privemb",
        dimension=dimension,
        epsilon=params.epsilon,
        output_dimension=params.dimension,
        clip_norm=params.clip_norm,
        projection=params.projection,
        strict=params.strict,
        beta=params.beta,
        delta=params.delta,
    )
    if spec.projection == "pca" and not embedder_facts(here.engine).vector_pack:
        raise InvalidInput("pca is for the bundled encoder, which this gateway does not run", field="projection")
    spectral_norm_bound = await norm_bound_of(here, spec, tenant=tenant)
    facts = vector_facts(spec, spectral_norm_bound=spectral_norm_bound) | promise
    return VectorPrice(spec, vector_events(spec, spectral_norm_bound=spectral_norm_bound), facts)


def _of_texts(here: House, params: VectorParameters) -> tuple[VectorParameters, int]:
    """The parameters with the defaults of texts, and the dimension of their vectors. Raises WorkerCold."""
    facts = embedder_facts(here.engine)
    if params.mechanism is None:
        projection = params.projection or ("pca" if facts.vector_pack else None)
        params = params.model_copy(update={"mechanism": "codebook", "projection": projection})
    return params, facts.encoder.dimension


def text_batch(texts: Sequence[str], settings: Settings) -> VectorBatch:
    """Each text as one unit. Raises InvalidInput for a blank one, a long one or too many."""
    if len(texts) > settings.vector_texts_max:
        raise InvalidInput(f"at most {settings.vector_texts_max} texts a call", field="texts")
    for index, text in enumerate(texts):
        if not text.strip():
            raise InvalidInput("a text must hold something", field=f"texts.{index}")
        if len(text) > settings.document_chars_max:
            raise InvalidInput(f"at most {settings.document_chars_max} characters a text", field=f"texts.{index}")
    return VectorBatch(len(texts), texts=tuple(texts))


def rows_dimension(rows: Sequence[Sequence[float]]) -> int:
    """The dimension of vectors that came as lists of numbers. Raises InvalidInput where it is not one."""
    dimension = len(rows[0])
    if any(len(row) != dimension for row in rows):
        raise InvalidInput("all vectors must have the same dimension", field="vectors")
    return dimension


def vector_batch(here: House, rows: Sequence[Sequence[float]], spec: VectorSpec) -> VectorBatch:
    """Vectors that came as lists of finite numbers, as they were parsed: a cast would move near ones apart.

    Raises QueueFull.
    """
    matrix = np.asarray(rows, dtype=np.float64)
    placed = BlockArray(here.engine.arrays.block(matrix.nbytes), FLOAT64, (len(rows), spec.dimension))
    placed.write_rows(matrix, 0)
    return VectorBatch(len(rows), vectors=placed)


async def file_batch(vectors: BlockArray) -> VectorBatch:
    """Vectors that came as a file. Raises InvalidInput for a number that is not finite."""
    if not await asyncio.to_thread(_finite, vectors):
        raise InvalidInput("every number of a vector must be finite", field="vectors")
    return VectorBatch(vectors.shape[0], vectors=vectors)


def vector_release(
    here: House,
    *,
    tenant: str,
    price: VectorPrice,
    batch: VectorBatch,
    subject: str | None,
    render: Callable[[Array, dict[str, Any]], Rendered],
    dtype: str = FLOAT32,
    media_type: str = JSON,
    fingerprint: bytes | None = None,
) -> ReleaseRequest:
    """The release of `batch`, each row charged; `render` gets the released vectors `[n, m]` of `dtype`.

    Raises QueueFull while there is no memory for the answer.
    """
    shape = (batch.rows, price.spec.output_dimension)
    block = here.engine.arrays.block(batch.rows * price.spec.output_dimension * np.dtype(dtype).itemsize)
    released = BlockArray(block, dtype, shape)
    task = VectorTask(price.spec, tenant, released, texts=batch.texts, vectors=batch.vectors)

    def parts(texts: Sequence[str]) -> Parts:
        charges = price.charges(rows=1, subject=subject)
        how = [b"text", here.encoder_fingerprint.encode(), orjson.dumps(price.spec)]

        def only(numbers: Sequence[int]) -> ReleaseRequest:
            some = VectorBatch(len(numbers), texts=tuple(texts[number] for number in numbers))
            return vector_release(here, tenant=tenant, price=price, batch=some, subject=subject, render=render)

        return Parts(
            parts=[Part(charges, [*how, text.encode()]) for text in texts],
            only=only,
            pack=lambda row: row.tobytes(),
            unpack=lambda content: np.frombuffer(content, dtype=dtype),
        )

    return ReleaseRequest(
        charges=price.charges(rows=batch.rows, subject=subject),
        role=Role.EMBED,
        tasks=[Task(task, task.weight)],
        render=render,
        collect=lambda _: released.read(),
        privacy=price.facts,
        media_type=media_type,
        fingerprint=fingerprint,
        parts=None if batch.texts is None else partial(parts, batch.texts),
    )


def _finite(vectors: BlockArray) -> bool:
    """A sum of finite numbers may overflow, one with an infinity or NaN is never finite: mostly one pass is enough."""
    numbers = vectors.read()
    if numbers.dtype == np.float16:  # its arithmetic is slow; all ones in the exponent are the largest magnitudes
        rows = max(1, _CHECKED_AT_ONCE // numbers.shape[1])
        parts = (numbers[start : start + rows].view(np.uint16) for start in range(0, len(numbers), rows))
        return all(int((part & _FLOAT16_MAGNITUDE).max()) < _FLOAT16_INFINITY for part in parts)
    with np.errstate(over="ignore", invalid="ignore"):
        total = numbers.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(numbers).all())
