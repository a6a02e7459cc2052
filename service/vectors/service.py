"""Private vectors: the bodies and parameters of a request, what is to be released, checked, and the release request.

Every endpoint that releases vectors uses it. Vectors are in shared memory.

Guarantee: `privemb` and `laplace` are metric-DP, epsilon per unit of Euclidean distance; `privunit` and `codebook` are
pure epsilon-DP for replacing a vector by any other. Each vector is one unit.
"""

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import orjson
from pydantic import Field
from typing_extensions import TypedDict

from core import spans
from core.accounting.events import PrivacyEvent
from core.errors import InvalidInput
from core.ledger.records import Charge
from core.mechanisms.vectors.pricing import vector_events, vector_facts
from core.mechanisms.vectors.spec import VECTOR_MECHANISMS, VectorSpec, vector_spec
from gpu_workers.engine.arrays import Array, ArrayPool, BlockArray
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.tasks import VectorTask
from service.config.settings import TEXTS_TAKEN, VECTORS_TAKEN, Settings
from service.http.answers import doc
from service.http.choices import Projection, VectorMechanism
from service.http.strict import AtMost, Strict, Vector, exactly_one_of
from service.preparation import Preparation
from service.releases.answers import Account, Privacy
from service.releases.request import JSON, Price, ReleasePart, ReleaseParts, ReleaseRequest, Rendered, check_epsilon
from service.vectors.constructions import NO_MATRICES, Constructions, Matrices, Projections
from service.workers import Workers


class VectorParameters(Strict):
    """How vectors are released: the members that every body shares."""

    epsilon: float = Field(
        gt=0, description="Of each vector: per unit of distance for privemb and laplace, in total for the others."
    )
    mechanism: VectorMechanism | None = Field(None, description="Default: codebook for texts, privemb for vectors.")
    dimension: int | None = Field(None, ge=1, description="Of the released vectors.")
    clip_norm: float | None = Field(None, gt=0, description="Longer vectors are clipped to it; default 1.")
    projection: Projection | None = Field(
        None, description="Default: by mechanism; pca for texts whose mechanism is not named."
    )
    strict: bool = Field(True, description="false: the paper's form of privemb, which `beta` and `delta` describe.")
    beta: float | None = None
    delta: float | None = None
    subject: str | None = Field(None, min_length=1, max_length=256)


class VectorRequest(VectorParameters):
    """Body of `POST /embed/vector`, and of `POST /budget/estimate` for its price."""

    texts: Annotated[list[str], AtMost(TEXTS_TAKEN)] | None = Field(
        None, min_length=1, description="The encoder reads the first `tokens_max` tokens of each (`GET /models`)."
    )
    vectors: Annotated[list[Vector], AtMost(VECTORS_TAKEN)] | None = Field(None, min_length=1)
    encoding_format: Literal["float", "base64"] = "float"

    _one_form = exactly_one_of("texts", "vectors")

    @property
    def size(self) -> int:
        """The characters of all texts, or the numbers of all vectors."""
        return sum(map(len, self.texts or self.vectors or ()))

    @property
    def rows(self) -> int:
        return len(self.texts or self.vectors or ())


class FileParameters(VectorParameters):
    """The parameters of a file, as JSON in its metadata."""

    output_dtype: Literal["float32", "float16"] = "float32"


class VectorRow(TypedDict):
    """A released vector."""

    index: Annotated[int, doc("The place of the text or vector in the request, from 0.")]
    embedding: Annotated[list[float] | str, doc("The vector; as base64 of float32, little-endian, where asked for.")]
    reused_from: NotRequired[Annotated[str, doc("The earlier release that answers it; where releases are reused.")]]


class VectorUsage(TypedDict):
    """What an answer is about, in numbers."""

    vectors: Annotated[int, doc("How many vectors.")]


class PrivateVectors(TypedDict):
    """Released vectors of texts, or of vectors of the caller."""

    model: Annotated[str | None, doc("The encoder; null for vectors of the caller.")]
    dimension: Annotated[int, doc("The dimension of the vectors.")]
    data: Annotated[list[VectorRow], doc("A row for each text or vector, in their order.")]
    privacy: Annotated[Privacy, doc("The guarantee of each vector.")]
    budget: Annotated[Account, doc("The account with the least left of those that paid.")]
    usage: Annotated[VectorUsage, doc("What was released.")]


def typical(epsilon: float) -> list[VectorRequest]:
    """One text by each mechanism."""
    return [VectorRequest(texts=["-"], epsilon=epsilon, mechanism=name) for name in VECTOR_MECHANISMS]


FLOAT32, FLOAT64 = "float32", "float64"
_FLOAT16_MAGNITUDE, _FLOAT16_INFINITY = np.uint16(0x7FFF), 0x7C00
_CHECKED_AT_ONCE = 1 << 18  # numbers: half a megabyte, which stays in the cache


@dataclass(frozen=True)
class VectorBatch:
    """Either `texts`, or `vectors` `[rows, d]`."""

    rows: int
    texts: tuple[str, ...] | None = None
    vectors: BlockArray | None = None

    @property
    def usage(self) -> dict[str, int]:
        """The `usage` block of an answer."""
        return {"vectors": self.rows}


def text_batch(texts: Sequence[str], settings: Settings) -> VectorBatch:
    """Each text as one unit. Raises InvalidInput for a blank one, a long one or too many."""
    if len(texts) > settings.embedded_texts_max:
        raise InvalidInput(f"at most {settings.embedded_texts_max} texts a call", field="texts")
    for index, text in enumerate(texts):
        if not text.strip():
            raise InvalidInput("a text must hold something", field=f"texts.{index}")
        if len(text) > settings.document_chars_max:
            raise InvalidInput(f"at most {settings.document_chars_max} characters a text", field=f"texts.{index}")
    return VectorBatch(len(texts), texts=tuple(texts))


def rows_dimension(rows: Sequence[Sequence[float]]) -> int:
    """The dimension of vectors that came as lists of numbers. Raises InvalidInput for rows of several lengths."""
    dimension = len(rows[0])
    if any(len(row) != dimension for row in rows):
        raise InvalidInput("all vectors must have the same dimension", field="vectors")
    return dimension


def matrix_of(rows: Sequence[Sequence[float]]) -> Array:
    """Lists of finite numbers in float64: a cast would increase the distance of near vectors."""
    return np.asarray(rows, dtype=np.float64)


def array_batch(arrays: ArrayPool, matrix: Array, spec: VectorSpec, *, tenant: str) -> VectorBatch:
    """The vectors of `matrix_of`, in shared memory. Raises QueueFull, TenantLimitReached."""
    placed = BlockArray(arrays.block(matrix.nbytes, owner=tenant), FLOAT64, (len(matrix), spec.dimension))
    placed.write_rows(matrix, 0)
    return VectorBatch(len(matrix), vectors=placed)


async def file_batch(vectors: BlockArray) -> VectorBatch:
    """Vectors that came as a file. Raises InvalidInput for a number that is not finite."""
    if not await asyncio.to_thread(_finite, vectors):
        raise InvalidInput("every number of a vector must be finite", field="vectors")
    return VectorBatch(vectors.shape[0], vectors=vectors)


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


# What is promised at epsilon, or at `epsilon_worst_case`. Each text is one vector: replacing a token of it changes one.
_OF_TEXTS = {"units": ["vector", "sentence", "token"], "public": ["number of texts"]}
_OF_VECTORS = {"units": ["vector"], "public": ["number of vectors"]}

_CODEBOOK_VECTORS_MAX = 8192  # a vector takes up to a millisecond


@dataclass(frozen=True)
class VectorPrice:
    """A spec, the events that each vector costs, and what an answer's privacy block says beside them.

    `matrices`: the public matrices of a release, see `VectorService.with_matrices`.
    """

    spec: VectorSpec
    events: tuple[PrivacyEvent, ...]
    facts: dict[str, Any]
    matrices: Matrices = NO_MATRICES

    def charges(self, *, rows: int, subject: str | None) -> list[Charge]:
        return [Charge(event, subject, times=rows) for event in self.events]


class VectorService:
    """Prices parameters of vectors and makes release requests of them, before anything is reserved."""

    body = VectorRequest

    def __init__(
        self,
        settings: Settings,
        *,
        workers: Workers,
        projections: Projections,
        constructions: Constructions,
        arrays: ArrayPool,
        preparation: Preparation,
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._projections = projections
        self._constructions = constructions
        self._arrays = arrays
        self._preparation = preparation

    async def price(self, tenant: str, body: VectorRequest) -> Price:
        """What `body` costs. Raises InvalidInput, and for texts WorkerCold."""
        found = await self.price_of_body(tenant, body)
        return Price(found.charges(rows=body.rows, subject=body.subject), found.facts)

    async def price_of_body(self, tenant: str, body: VectorRequest) -> VectorPrice:
        """As `price`, with the spec that is priced."""
        dimension = None if body.vectors is None else rows_dimension(body.vectors)
        return await self.vector_price(tenant, body, rows=body.rows, dimension=dimension)

    async def vector_price(
        self, tenant: str, params: VectorParameters, *, rows: int, dimension: int | None
    ) -> VectorPrice:
        """What each of `rows` vectors of `dimension` numbers costs; None: of as many texts. Looks at no vector.

        A Gaussian projection is computed, because its spectral norm is in the price. Raises InvalidInput, and for texts
        WorkerCold.
        """
        promise = _OF_VECTORS
        if dimension is None:
            params, dimension = self._of_texts(params)
            promise = _OF_TEXTS
        settings = self._settings
        rows_max = settings.vectors_max if params.mechanism != "codebook" else _CODEBOOK_VECTORS_MAX
        if rows > rows_max:
            raise InvalidInput(f"at most {rows_max} vectors a call by this mechanism", field="vectors")
        check_epsilon(params.epsilon, settings)
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
        if spec.projection == "pca" and not self._workers.embedder.vector_pack:
            raise InvalidInput("pca is for the bundled encoder, which this gateway does not run", field="projection")
        norm_bound = await self._projections.norm_bound_of(spec, tenant=tenant)
        facts = vector_facts(spec, spectral_norm_bound=norm_bound) | promise
        return VectorPrice(spec, vector_events(spec, spectral_norm_bound=norm_bound), facts)

    def _of_texts(self, params: VectorParameters) -> tuple[VectorParameters, int]:
        """The parameters with the defaults of texts, and the dimension of their vectors. Raises WorkerCold."""
        facts = self._workers.embedder
        if params.mechanism is None:
            projection = params.projection or ("pca" if facts.vector_pack else None)
            params = params.model_copy(update={"mechanism": "codebook", "projection": projection})
        return params, facts.encoder.dimension

    @spans.step("validate and price")
    async def release_request(self, tenant: str, body: VectorRequest) -> ReleaseRequest:
        """The release that `body` describes. Raises as `price`, `text_batch` and `array_batch`; QueueFull,
        TenantLimitReached."""
        return await self.release_at(tenant, body, await self.price_of_body(tenant, body))

    async def with_matrices(self, tenant: str, price: VectorPrice) -> VectorPrice:
        """The price with the matrices that a release needs, so that the worker need not compute them.

        Raises as `Constructions.matrices`.
        """
        return replace(price, matrices=await self._constructions.matrices(price.spec, tenant=tenant))

    async def release_at(self, tenant: str, body: VectorRequest, price: VectorPrice) -> ReleaseRequest:
        """As `release_request`, for a price that was computed before."""
        price = await self.with_matrices(tenant, price)
        model = None if body.texts is None else self._workers.encoder_name
        if body.vectors is not None:
            size = len(body.vectors) * price.spec.dimension
            matrix = await self._preparation.run(tenant, size, matrix_of, body.vectors)
            batch = array_batch(self._arrays, matrix, price.spec, tenant=tenant)
        else:
            batch = await self._preparation.run(tenant, body.size, text_batch, body.texts or (), self._settings)

        def render(released: Array, common: dict[str, Any]) -> Rendered:
            rows = [_shown(row, body.encoding_format) for row in released]
            return {
                "model": model,
                "dimension": price.spec.output_dimension,
                "data": [{"index": index, "embedding": row} for index, row in enumerate(rows)],
                **common,
                "usage": batch.usage,
            }

        return self.batch_release(tenant, price, batch, subject=body.subject, render=render)

    def batch_release(
        self,
        tenant: str,
        price: VectorPrice,
        batch: VectorBatch,
        *,
        subject: str | None,
        render: Callable[[Array, dict[str, Any]], Rendered],
        dtype: str = FLOAT32,
        media_type: str = JSON,
        fingerprint: bytes | None = None,
    ) -> ReleaseRequest:
        """The release of `batch`, each row charged; `render` gets the released vectors `[n, m]` of `dtype`.

        Raises QueueFull or TenantLimitReached while there is no memory for the answer.
        """
        shape = (batch.rows, price.spec.output_dimension)
        size = batch.rows * price.spec.output_dimension * np.dtype(dtype).itemsize
        block = self._arrays.block(size, owner=tenant)
        released = BlockArray(block, dtype, shape)
        task = VectorTask(
            price.spec,
            tenant,
            released,
            texts=batch.texts,
            vectors=batch.vectors,
            projection=price.matrices.projection,
            codebook=price.matrices.codebook,
        )

        def parts(texts: Sequence[str]) -> ReleaseParts:
            charges = price.charges(rows=1, subject=subject)
            how = [b"text", self._workers.encoder_fingerprint.encode(), orjson.dumps(price.spec)]

            def only(numbers: Sequence[int]) -> ReleaseRequest:
                some = VectorBatch(len(numbers), texts=tuple(texts[number] for number in numbers))
                return self.batch_release(tenant, price, some, subject=subject, render=render)

            return ReleaseParts(
                parts=[ReleasePart(charges, [*how, text.encode()]) for text in texts],
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


def _shown(row: Array, encoding_format: str) -> Array | str:
    return base64.b64encode(row.tobytes()).decode() if encoding_format == "base64" else row
