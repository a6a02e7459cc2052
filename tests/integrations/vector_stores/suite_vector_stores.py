"""Vector stores: the recipes of the guide over private vectors, and how many neighbours they keep."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from suite_kit import URL, new_tenant, spent

from privacy_gateway_client import Gateway

QUERIES, NEAREST = 24, 10
STORES = ("Qdrant", "sqlite-vec")
QUESTION = "The surgeon operated on the patient. The nurse gave her medicine. She had a fever. She went home healthy."


@pytest.fixture(scope="module")
def corpus() -> Any:
    with np.load(os.environ["INTEGRATION_CORPUS"]) as file:
        return {name: file[name] for name in file.files}


@pytest.fixture(scope="module")
def private(corpus: Any) -> dict[float, Any]:
    """The documents of the corpus as released at some epsilons."""
    texts = corpus["texts"][QUERIES:].tolist()
    with Gateway(URL, new_tenant(100_000)) as client:
        return {epsilon: client.embed_documents(texts, epsilon=epsilon).vectors for epsilon in (3, 10, 25)}


@pytest.mark.parametrize("store", STORES)
def test_the_recipe_of_the_guide_finds_the_topic(store: str, corpus: Any, run_example: Callable[..., Any]) -> None:
    names = run_example(store, texts=corpus["texts"][:60].tolist(), question=QUESTION)
    assert len(names["found"]) == 3
    assert [corpus["topics"][number] for number in names["found"]].count("medicine") >= 2
    assert spent(names["gateway"]) == 10 * 61


@pytest.mark.parametrize("store", STORES)
def test_recall_of_private_vectors(
    store: str, corpus: Any, private: dict[float, Any], run_example: Callable[..., Any]
) -> None:
    """Queries are unprotected, documents private. The figures are those of docs/guide/integrations.md."""
    recipe = run_example(store, texts=corpus["texts"][:3].tolist(), question=QUESTION)

    def found(name: str, vectors: Any, *, centred: bool) -> list[list[int]]:
        centre = vectors.mean(axis=0) if centred else np.zeros(vectors.shape[1], np.float32)
        recipe["index"](name, vectors - centre, "{}" if store == "sqlite-vec" else [{}] * len(vectors))
        return [recipe["nearest"](name, query - centre, NEAREST) for query in queries]

    queries, clean = np.split(corpus["vectors"], [QUERIES])
    topics = corpus["topics"]
    cosines = _units(queries) @ _units(clean).T
    for query, row in enumerate(found("clean", clean, centred=False)):  # the store finds the nearest ones
        assert cosines[query, row] == pytest.approx(np.sort(cosines[query])[::-1][:NEAREST], abs=1e-5)
    wanted = found("clean_centred", clean, centred=True)
    same = np.mean([topics[QUERIES + number] == topics[query] for query, row in enumerate(wanted) for number in row])
    print(f"{store}: without privacy: of the query's topic {same:.2f}")
    recalls = {}
    for epsilon, vectors in private.items():
        rows = found(f"private_{epsilon}", vectors, centred=True)
        recalls[epsilon] = np.mean([len({*row} & {*best}) / NEAREST for row, best in zip(rows, wanted, strict=True)])
        same = np.mean([topics[QUERIES + number] == topics[query] for query, row in enumerate(rows) for number in row])
        print(f"{store}: epsilon {epsilon}: recall@10 {recalls[epsilon]:.2f}, of the query's topic {same:.2f}")
    assert recalls[25] > recalls[3]
    assert 2 * NEAREST / len(clean) < recalls[25] <= 1


def _units(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
