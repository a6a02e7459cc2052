"""Private releases of the caller's own vectors, as safetensors files or as JSON, and the public projections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from typing_extensions import Unpack

from privacy_gateway_client.answers import Account, Privacy
from privacy_gateway_client.core import Core, Done, in_parts
from privacy_gateway_client.effects import Incoming, Op, Outgoing, in_thread
from privacy_gateway_client.errors import FieldError, GatewayError, InvalidRequest
from privacy_gateway_client.exchange import KEY, call, get, given
from privacy_gateway_client.operations.embedding import embed_part
from privacy_gateway_client.operations.paid import cache_names
from privacy_gateway_client.options import VectorOptions
from privacy_gateway_client.results import Embeddings, Partial, Release
from privacy_gateway_client.tensors import TYPE, Rows, Tensor, matrix_of, written

FILES = "/embed/vector/safetensors"
_HEADER_BYTES = 1 << 16  # of a file, and of what the gateway adds when it stores an answer
_Part = tuple[Tensor, Release]


def embed_vectors(
    core: Core,
    vectors: Any,
    *,
    epsilon: float,
    as_json: bool = False,
    output_dtype: str = "float32",
    idempotency_key: str | None = None,
    **options: Unpack[VectorOptions],
) -> Op[Embeddings]:
    """Release vectors, a matrix `[n, d]` of NumPy or lists of numbers, each of them protected on its own.

    epsilon: of each vector; for the metric mechanisms per unit of Euclidean distance.
    as_json: send one JSON request with full doubles, instead of float32 (or float16) files in parts.
    output_dtype: `float32` or `float16`.
    Parts are so small that the gateway stores their answers: a lost answer costs nothing when it is asked for again.
    """
    terms = {**given(options), "epsilon": epsilon}
    if as_json:
        return (yield from embed_part(core, vectors, terms, idempotency_key))
    rows = yield from in_thread(lambda: Rows(vectors))
    asked = terms if output_dtype == "float32" else {**terms, "output_dtype": output_dtype}
    size = _part_size(core, rows, asked)
    parts = [range(start, min(start + size, rows.count)) for start in range(0, rows.count, size)]
    names = yield from cache_names(
        core,
        FILES,
        {**asked, "dtype": rows.kind},
        lambda: [bytes(rows.part(part.start, part.stop)) for part in parts],
        domain=None,
    )
    known = {} if names is None else dict(zip(parts, names, strict=True))
    stand_in = {**terms, "vectors": [[0.0] * rows.width]}

    def release(part: range, key: str) -> Op[_Part]:
        name = known.get(part)
        if name is not None and core.cache is not None:
            cache = core.cache
            entry = (yield from in_thread(lambda: cache.get([name]))).get(name)
            if entry is not None:
                return _received(entry, part, None)
        content = written(
            "vectors", rows.kind, (len(part), rows.width), rows.part(part.start, part.stop), request=json.dumps(asked)
        )
        request = Outgoing("POST", FILES, headers={"Content-Type": TYPE}, content=content)
        answer = yield from core.charged(request, key, stand_in, len(part))
        result = _received(answer.content, part, answer)
        if name is not None and core.cache is not None:
            cache = core.cache
            yield from in_thread(lambda: cache.put([(name, answer.content)]))
        return result

    try:
        done = yield from in_parts(core, parts, release, key=idempotency_key, members=("vectors",))
    except GatewayError as error:
        finished = error.partial.parts if isinstance(error.partial, Done) else ()
        indices = [index for part, _ in finished for index in part]
        error.partial = Partial(indices, _joined(list(finished)) if finished else None)
        raise
    return _joined(done)


def projection(core: Core, kind: str, dimension: int, output_dimension: int) -> Op[tuple[Any, float]]:
    """The public matrix `[output_dimension, dimension]` of the tenant's releases, and its stretch.

    kind: `orthonormal`, `gaussian` or `pca`."""
    path = f"/models/projections/{kind}-{dimension}-{output_dimension}"
    answer = yield from call(core.retry, get(path))
    tensor = Tensor(answer.content, "projection")
    return matrix_of(tensor.kind, tensor.shape, [tensor.numbers]), float(tensor.metadata.get("stretch", 1.0))


def _part_size(core: Core, rows: Rows, asked: Mapping[str, Any]) -> int:
    """How many vectors a request has: what it may hold, and what the gateway stores of its answer."""
    limits = core.limits
    number = 2 if asked.get("output_dtype") == "float16" else 4
    count = limits.codebook_vectors if asked.get("mechanism") == "codebook" else limits.vectors
    count = min(count, (limits.vectors_bytes - _HEADER_BYTES) // rows.row_bytes)
    count = min(count, (limits.stored_bytes - _HEADER_BYTES) // (number * _dimension_max(rows.width, asked)))
    if count < 1:
        raise InvalidRequest((FieldError("vectors", "one vector is larger than a request may be"),))
    return count


def _dimension_max(width: int, asked: Mapping[str, Any]) -> int:
    """At most as many dimensions has a released vector (docs/reference/vectors.md)."""
    if asked.get("projection") in ("identity", "pca") or asked.get("strict") is False:
        return width
    return min(width, int(asked.get("dimension") or 64))


def _received(content: bytes, part: range, answer: Incoming | None) -> _Part:
    """A file of released vectors; `answer` is None for one from the cache."""
    tensor = Tensor(content, "embeddings")
    privacy = Privacy.model_validate_json(tensor.metadata["privacy"])
    if answer is None:
        return tensor, Release(tuple(part), privacy, cached=True)
    return tensor, Release(
        inputs=tuple(part),
        privacy=privacy,
        budget=Account.model_validate_json(tensor.metadata["budget"]),
        idempotency_key=answer.headers.get(KEY.lower()),
        replayed=answer.headers.get("idempotency-replayed") == "true",
    )


def _joined(done: list[tuple[range, _Part]]) -> Embeddings:
    first = done[0][1][0]
    count = sum(len(part) for part, _ in done)
    return Embeddings(
        vectors=matrix_of(first.kind, (count, first.shape[1]), [tensor.numbers for _, (tensor, _) in done]),
        dimension=first.shape[1],
        model=None,
        rows=[],
        releases=[release for _, (_, release) in done],
    )
