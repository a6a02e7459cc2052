"""Private embeddings: of documents, of texts, and through OpenAI's format."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import Unpack

from privacy_gateway_client.answers import EmbeddingRow
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Incoming, Op
from privacy_gateway_client.errors import AnswerInvalid
from privacy_gateway_client.exchange import call, get, given, json_of, parsed_json, post
from privacy_gateway_client.operations.paid import (
    Found,
    Item,
    PartAnswer,
    bought,
    cache_names,
    contents_of,
    members_of,
    part_answer,
    release_of,
)
from privacy_gateway_client.options import DocumentOptions, VectorOptions
from privacy_gateway_client.results import Embeddings
from privacy_gateway_client.tensors import matrix_of

DOCUMENTS, VECTORS = "/embed/sentdp", "/embed/vector"
_SAMPLE = "A sample."
DOMAIN = "general"  # the domain of a request that names none


def embed_documents(
    core: Core,
    documents: Iterable[str | Mapping[str, Any]],
    *,
    epsilon: float,
    idempotency_key: str | None = None,
    **options: Unpack[DocumentOptions],
) -> Op[Embeddings]:
    """Embed documents so that one sentence of each is protected, or what `privacy` of the result says.

    Each document costs `epsilon`. A document is a text, or has `text`, `sentences` or `embeddings` and a `subject`.
    Documents beyond the limits of one request are sent as several. Raises BudgetExhausted and others with `partial`.
    """
    terms = {**given(options), "epsilon": epsilon, "encoding_format": "base64"}
    rows = [members_of(one) for one in documents]
    domain = str(terms.get("domain", DOMAIN))
    names = yield from cache_names(core, DOCUMENTS, terms, lambda: contents_of(rows), domain=domain)
    subject = next((row["subject"] for row in rows if row.get("subject")), None)
    sample: dict[str, Any] = {"text": _SAMPLE}
    if rows and rows[0].get("embeddings") is not None:
        sample = {"embeddings": [[0.0] * len(rows[0]["embeddings"][0])]}
    stand_in = {**terms, "documents": [given({**sample, "subject": subject})]}

    def buy(indices: list[int], key: str) -> Op[PartAnswer]:
        part = {**terms, "documents": [rows[index] for index in indices]}
        answer = yield from core.charged(post(DOCUMENTS, part), key, stand_in, len(indices))
        return _vectors_of(answer, len(indices))

    return (
        yield from bought(
            core,
            [len(json_of(row)) for row in rows],
            buy,
            lambda found: _assembled(found, ids=[row.get("id") for row in rows]),
            names=names,
            items_max=core.limits.documents,
            weight_max=core.limits.body_bytes * 3 // 4,
            key=idempotency_key,
            members=("documents",),
        )
    )


def embed_texts(
    core: Core,
    texts: Iterable[str],
    *,
    epsilon: float,
    idempotency_key: str | None = None,
    **options: Unpack[VectorOptions],
) -> Op[Embeddings]:
    """Embed texts, each of which is one protected unit, however long. Each text costs `epsilon`."""
    terms = {**given(options), "epsilon": epsilon, "encoding_format": "base64"}
    all_texts = list(texts)
    contents = [json_of(text) for text in all_texts]
    names = yield from cache_names(core, VECTORS, terms, lambda: contents, domain=None)
    stand_in = {**terms, "texts": [_SAMPLE]}

    def buy(indices: list[int], key: str) -> Op[PartAnswer]:
        part = {**terms, "texts": [all_texts[index] for index in indices]}
        answer = yield from core.charged(post(VECTORS, part), key, stand_in, len(indices))
        return _vectors_of(answer, len(indices))

    return (
        yield from bought(
            core,
            [len(content) for content in contents],
            buy,
            _assembled,
            names=names,
            items_max=core.limits.vector_texts,
            weight_max=core.limits.body_bytes * 3 // 4,
            key=idempotency_key,
            members=("texts",),
        )
    )


def embed_part(core: Core, vectors: Any, terms: Mapping[str, Any], key: str | None) -> Op[Embeddings]:
    """Vectors of the caller as one JSON request."""
    rows = vectors.tolist() if hasattr(vectors, "tolist") else [list(row) for row in vectors]
    body = {**terms, "encoding_format": "base64", "vectors": rows}
    stand_in = {**terms, "vectors": [[0.0] * len(rows[0])]} if rows else None
    answer = yield from core.charged(post(VECTORS, body), key, stand_in, len(rows))
    part = _vectors_of(answer, len(rows))
    return _assembled(Found(dict(enumerate(part.items)), [release_of(list(range(len(rows))), part)], {}))


def openai_embeddings(
    core: Core,
    model: str,
    inputs: str | Sequence[str],
    *,
    user: str | None = None,
    encoding_format: str = "float",
    dimensions: int | None = None,
    idempotency_key: str | None = None,
) -> Op[dict[str, Any]]:
    """`POST /v1/embeddings` with a preset, in OpenAI's format. Each input costs the preset's epsilon."""
    terms = given({"model": model, "user": user, "encoding_format": encoding_format, "dimensions": dimensions})
    stand_in = None
    if core.capped:
        stand_in = yield from _preset_stand_in(core, model, user)
    count = 1 if isinstance(inputs, str) else len(inputs)
    request = post("/v1/embeddings", {**terms, "input": inputs})
    answer = yield from core.charged(request, idempotency_key, stand_in, count)
    result: dict[str, Any] = parsed_json(answer.content)
    return result


def _preset_stand_in(core: Core, model: str, user: str | None) -> Op[dict[str, Any]]:
    answer = yield from call(core.retry, get(f"/v1/models/{model}"))
    preset = dict(parsed_json(answer.content).get("preset") or {})
    of_documents = preset.pop("endpoint", None) == "sentdp"
    use = preset.pop("subject", "none")
    members = (DocumentOptions if of_documents else VectorOptions).__annotations__.keys() | {"epsilon"}
    terms = {name: value for name, value in preset.items() if name in members and value is not None}
    subject = user if use in ("user", "required") else None
    sample: dict[str, Any] = {"documents": [{"text": _SAMPLE}]} if of_documents else {"texts": [_SAMPLE]}
    return given({**terms, **sample, "subject": subject})


def _vectors_of(answer: Incoming, count: int) -> PartAnswer:
    members = parsed_json(answer.content)
    failure = AnswerInvalid("the answer does not have the expected members", ("data",))
    try:
        items = [
            Item(
                row={name: value for name, value in row.items() if name != "embedding"},
                privacy=members["privacy"],
                vector=base64.b64decode(row["embedding"]),
                model=members["model"],
                dimension=members["dimension"],
            )
            for row in members["data"]
        ]
        if len(items) == count:
            return part_answer(answer, items, members)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise failure


def _assembled(found: Found, ids: Sequence[str | None] | None = None) -> Embeddings:
    items = list(found.items.values())
    dimension = items[0].dimension if items else 0
    rows = [
        EmbeddingRow.model_validate({**item.row, "index": index, **given({"id": ids[index] if ids else None})})
        for index, item in found.items.items()
    ]
    return Embeddings(
        vectors=matrix_of("F32", (len(items), dimension), [item.vector for item in items]),
        dimension=dimension,
        model=items[0].model if items else None,
        rows=rows,
        releases=found.releases,
    )
