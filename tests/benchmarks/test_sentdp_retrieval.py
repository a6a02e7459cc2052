"""The figures of the retrieval benchmark have their known values."""

from __future__ import annotations

import numpy as np
import pytest


def ranks(*relevant: int) -> np.ndarray:
    """Hits of one query whose relevant documents are at these ranks, from 1."""
    from benchmarks.sentdp.retrieval import DEPTH

    hits = np.zeros((1, DEPTH), dtype=np.bool_)
    hits[0, [rank - 1 for rank in relevant]] = True
    return hits


def test_known_values() -> None:
    from benchmarks.sentdp.retrieval import ndcg, recall

    for found, relevant, gain, share in [
        ((1,), 1, 1.0, 1.0),
        ((2,), 1, 1 / np.log2(3), 1.0),
        ((10,), 1, 1 / np.log2(11), 1.0),
        ((), 1, 0.0, 0.0),
        ((1, 3), 2, 1.5 / (1 + 1 / np.log2(3)), 1.0),
        ((1,), 4, 1 / (1 + 1 / np.log2(3) + 1 / 2 + 1 / np.log2(5)), 0.25),
        (tuple(range(1, 11)), 200, 1.0, 1.0),
        ((1, 2), 200, (1 + 1 / np.log2(3)) / sum(1 / np.log2(i + 1) for i in range(1, 11)), 0.2),
    ]:
        assert ndcg(ranks(*found), np.array([relevant]))[0] == pytest.approx(gain)
        assert recall(ranks(*found), np.array([relevant]))[0] == pytest.approx(share)


def test_chance_is_that_of_a_random_order() -> None:
    from benchmarks.sentdp.retrieval import Task

    one = np.zeros((4, 200), dtype=np.bool_)
    one[:, 3] = True
    discounts = sum(1 / np.log2(i + 1) for i in range(1, 11))

    assert Task("one", [], [], one).chance() == f"{discounts / 200:.3f} / {10 / 200:.3f}"
    assert Task("all", [], [], np.ones((4, 200), dtype=np.bool_)).chance() == "1.000 / 1.000"
