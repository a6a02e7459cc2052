"""How strongly columns go together: the three measures against their definitions."""

import numpy as np
import pytest
from synthesis_kit import table_of, toy_schema

from core.synthesis.encoding import associations

RNG = np.random.default_rng(5)


def test_extremes() -> None:
    rows = [(i * 40, i * 20 + 7, i % 3, i % 2) for i in range(100)]
    found = associations(table_of(toy_schema(numeric=2), rows), columns=3)
    assert found.shape == (4, 4)
    assert np.array_equal(found, found.T)
    assert found[0, 1] == pytest.approx(1)
    constant = associations(table_of(toy_schema(numeric=2), [(5, i, 1, 0) for i in range(9)]), columns=3)
    assert np.array_equal(constant, np.eye(4))


def test_the_measures() -> None:
    numbers = RNG.integers(0, 4096, size=(500, 2))
    colours, labels = RNG.integers(0, 3, 500), RNG.integers(0, 2, 500)
    colours = np.where(labels == 1, np.minimum(colours, 1), colours)
    numbers[:, 0] = np.where(labels == 1, numbers[:, 0] // 2, numbers[:, 0])
    table = table_of(toy_schema(numeric=2), [tuple(row) for row in np.column_stack([numbers, colours, labels])])
    found = associations(table, columns=3)
    assert found[0, 1] == pytest.approx(abs(np.corrcoef(numbers.T)[0, 1]))
    x = numbers[:, 0]
    between = sum((labels == k).sum() * (x[labels == k].mean() - x.mean()) ** 2 for k in (0, 1))
    assert found[0, 3] == pytest.approx(np.sqrt(between / ((x - x.mean()) ** 2).sum()))
    counts = np.array([[((colours == c) & (labels == y)).sum() for y in (0, 1)] for c in range(3)])
    expected = counts.sum(1)[:, None] * counts.sum(0) / 500
    assert found[2, 3] == pytest.approx(np.sqrt(((counts - expected) ** 2 / expected).sum() / 500))


def test_only_the_requested_columns() -> None:
    table = table_of(toy_schema(numeric=5), [tuple(RNG.integers(0, 2, 7)) for _ in range(20)])
    assert associations(table, columns=2).shape == (3, 3)
