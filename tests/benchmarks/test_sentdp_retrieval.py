"""The figures of the retrieval benchmark have their known values, and its tasks and methods fit together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.sentdp.retrieval import DEPTH, VECTOR, VECTOR_PACK, Task, hits_of, methods, ndcg, recall, table
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.vectors.vector_pack import VectorPack

PACK = Path(__file__).parents[2] / "gpu_workers" / "packs" / "general.safetensors"


def ranks(*relevant: int) -> np.ndarray:
    """Hits of one query whose relevant documents are at these ranks, from 1."""
    hits = np.zeros((1, DEPTH), dtype=np.bool_)
    hits[0, [rank - 1 for rank in relevant]] = True
    return hits


@pytest.mark.parametrize(
    ("found", "relevant", "gain", "share"),
    [
        ((1,), 1, 1.0, 1.0),
        ((2,), 1, 1 / np.log2(3), 1.0),
        ((10,), 1, 1 / np.log2(11), 1.0),
        ((), 1, 0.0, 0.0),
        ((1, 3), 2, 1.5 / (1 + 1 / np.log2(3)), 1.0),
        ((1,), 4, 1 / (1 + 1 / np.log2(3) + 1 / 2 + 1 / np.log2(5)), 0.25),
        (tuple(range(1, 11)), 200, 1.0, 1.0),
        ((1, 2), 200, (1 + 1 / np.log2(3)) / sum(1 / np.log2(i + 1) for i in range(1, 11)), 0.2),
    ],
)
def test_known_values(found: tuple[int, ...], relevant: int, gain: float, share: float) -> None:
    assert ndcg(ranks(*found), np.array([relevant]))[0] == pytest.approx(gain)
    assert recall(ranks(*found), np.array([relevant]))[0] == pytest.approx(share)


def test_the_nearest_direction_is_first() -> None:
    directions = np.concatenate([np.eye(6), -np.eye(6)]).astype(np.float32)
    hits = hits_of(directions, 3 * directions, np.eye(12, dtype=np.bool_), np.random.default_rng(0))

    assert hits[:, 0].all()


def test_documents_of_equal_vectors_are_in_random_order() -> None:
    """Each of 50 equal documents is among the first ten in a fifth of the rankings."""
    source, relevant = np.random.default_rng(1), np.zeros((1, 50), dtype=np.bool_)
    relevant[0, 0] = True
    same = np.ones((50, 4), dtype=np.float32)
    found = [hits_of(same[:1], same, relevant, source).any() for _ in range(1_000)]

    assert np.mean(found) == pytest.approx(0.2, abs=0.05)


def test_chance_is_that_of_a_random_order() -> None:
    one = np.zeros((4, 200), dtype=np.bool_)
    one[:, 3] = True
    discounts = sum(1 / np.log2(i + 1) for i in range(1, 11))

    assert Task("one", [], [], one).chance() == f"{discounts / 200:.3f} / {10 / 200:.3f}"
    assert Task("all", [], [], np.ones((4, 200), dtype=np.bool_)).chance() == "1.000 / 1.000"


def test_every_method_has_a_row_for_both_sides() -> None:
    pack = DomainPack.load(PACK)
    rows = np.random.default_rng(2).standard_normal((14, 1, pack.info.dimension)).astype(np.float32)
    documents = list(rows / np.linalg.norm(rows, axis=2, keepdims=True))
    task = Task("task", documents[:2], documents[2:], np.eye(2, 12, dtype=np.bool_))
    found = methods(pack, VectorPack.load(VECTOR_PACK))
    shown = table(task, found, 1, np.random.default_rng(3))

    assert VECTOR in {method.name for method in found}
    for method in found:
        assert f"| {method.name} | queries |" in shown
        assert f"| {method.name} | documents |" in shown
    assert "nan" not in shown
