"""Hugging Face datasets: private vectors and sanitised texts of a column, in batches, resumable.

`pip install privacy-gateway-client[datasets]`

Guarantee: the same call on the same dataset buys each batch once, however often it is interrupted. Batches that
arrived are in the client's cache. A batch that was paid and did not arrive is asked for under the same idempotency key,
and the gateway returns it without a charge while it keeps the answer (RESPONSE_RETENTION_S). After that time the call
raises `ReleaseGone`; another `name` buys the rest under other keys. A call that was completed is not made again where
datasets keeps its result on the disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from datasets import Dataset, Features, List, Value
from datasets.fingerprint import Hasher
from pydantic import BaseModel

from privacy_gateway_client import Gateway
from privacy_gateway_client.inputs import numbered, texts_of
from privacy_gateway_client.integrations import calls
from privacy_gateway_client.integrations.calls import Column, Endpoint, Facts, OnRelease, TextEmbedder, facts_of
from privacy_gateway_client.options import Cache

BATCH = 256
_PRICED = ("dp", "metric_dp")
_FACTS = {
    "privacy_guarantee": Value("string"),
    "privacy_unit": Value("string"),
    "privacy_epsilon": Value("float64"),
    "privacy_delta": Value("float64"),
    "privacy_mechanism": Value("string"),
    "privacy_release_id": Value("string"),
}
# the values for some texts, and the facts of their releases; the second argument is the idempotency key
One = Callable[[list[str], str | None], tuple[Any, Sequence[Facts]]]


def embed(
    dataset: Dataset,
    column: str,
    gateway: Gateway,
    *,
    epsilon: float,
    into: str = "embedding",
    endpoint: Endpoint = "sentdp",
    batch_size: int = BATCH,
    name: str = "",
    on_release: OnRelease | None = None,
    **options: Any,
) -> Dataset:
    """The dataset with private vectors of a column in the column `into`, and the facts of their release beside them in
    `{into}_privacy`. Each text costs `epsilon`; a missing one nothing. Equal texts are bought once.

    gateway: a client with a cache; ValueError without one.
    endpoint: `sentdp` protects one sentence of each text, `vector` each text as a whole.
    name: part of the idempotency keys alone.
    options: further arguments of `Gateway.embed_documents` or `Gateway.embed_texts`.
    """
    cache = _cache_of(gateway)
    embedder = TextEmbedder(epsilon, endpoint, options, on_release)
    asked = {
        "gateway": gateway._connection.gateway,
        "column": column,
        "epsilon": epsilon,
        "endpoint": endpoint,
        "options": options,
    }

    def one(texts: list[str], key: str | None) -> tuple[Any, Sequence[Facts]]:
        result = embedder.embed(gateway, texts, idempotency_key=key)
        return result.vectors, facts_of(result)

    _check_dataset(dataset, column)
    for row, text in enumerate(dataset[column]):  # before the first batch is paid
        if not isinstance(text, str | None):
            raise TypeError(f"the value in row {row} is no text but of the type {type(text).__name__}")
        if text is not None:
            with numbered([row]):
                texts_of("texts", text)
    form = List(Value("float32"))
    return _mapped(dataset, one, asked, cache, into=into, form=form, name=name, batch_size=batch_size)


def sanitize(
    dataset: Dataset,
    column: str,
    gateway: Gateway,
    *,
    fill: Mapping[str, Any],
    into: str | None = None,
    batch_size: int = BATCH,
    name: str = "",
    on_release: OnRelease | None = None,
    **options: Any,
) -> Dataset:
    """The dataset with masked and filled texts in place of a column, or in the column `into`. No formal guarantee,
    except by the fills `dp` and `metric_dp`, which cost budget and need a client with a cache.

    fill, and options: `mask`, `policy` of `Gateway.sanitize`. The others: as of `embed`.
    """
    _check_dataset(dataset, column)
    options = {**options, "fill": dict(fill)}
    priced = fill.get("mode") in _PRICED
    cache = _cache_of(gateway) if priced else None
    asked = {"gateway": gateway._connection.gateway, "column": column, "options": options}

    def one(texts: list[str], key: str | None) -> tuple[Any, Sequence[Facts]]:
        keyed = options if key is None else {**options, "idempotency_key": key}
        cleaned = calls.sanitize(gateway, texts, keyed, on_release)
        return [each.text for each in cleaned], [each.facts for each in cleaned]

    form = Value("string")
    return _mapped(dataset, one, asked, cache, into=into or column, form=form, name=name, batch_size=batch_size)


def _mapped(
    dataset: Dataset,
    one: One,
    asked: Mapping[str, Any],
    cache: Cache | None,
    *,
    into: str,
    form: Any,
    name: str,
    batch_size: int,
) -> Dataset:
    column = asked["column"]
    described = json.dumps({**asked, "name": name}, sort_keys=True, default=_written)

    def batch(rows: dict[str, Any], indices: list[int]) -> dict[str, Any]:
        texts = Column.of(rows[column], missing=[value is None for value in rows[column]])
        key = None
        if cache is not None:
            key = cache.name({"batch": described}, json.dumps(texts.texts).encode()).hex()
        with numbered([indices[place] for place in texts.places]):
            values, facts = one(texts.texts, key) if texts.texts else ([], [])
        whole: list[Any] = [None] * texts.size
        privacy: list[Any] = [None] * texts.size
        for place, value, known in zip(texts.places, values, facts, strict=True):
            whole[place], privacy[place] = value, {fact: known.get(fact) for fact in _FACTS}
        return {into: whole, f"{into}_privacy": privacy}

    return dataset.map(
        batch,
        batched=True,
        with_indices=True,
        batch_size=batch_size,
        features=Features({**dataset.features, into: form, f"{into}_privacy": _FACTS}),
        new_fingerprint=Hasher.hash([dataset._fingerprint, described, into]),
    )


def _check_dataset(dataset: Dataset, column: str) -> None:
    if not isinstance(dataset, Dataset):
        raise TypeError(f'pass one split, such as dataset["train"], not {type(dataset).__name__}')
    if column not in dataset.column_names:
        raise ValueError(f"there is no such column; the dataset has {', '.join(dataset.column_names)}")


def _cache_of(gateway: Gateway) -> Cache:
    cache = gateway._connection.cache
    if cache is None:
        raise ValueError("the gateway's client needs a cache, so that an interrupted call buys nothing twice")
    return cache


def _written(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    raise TypeError(f"a parameter of the type {type(value).__name__} has no written form")
