"""A fitted model has the marginals that were measured, on a tree that holds them, and is the same each time."""

import itertools
import math

import numpy as np
import pytest

from core.synthesis.junction_tree import Attributes, Measurement, Model, cliques_of, model_cells, tree_of

SIZES = (2, 3, 2, 4)
LOOP: list[Attributes] = [(0, 1), (1, 2), (2, 3), (0, 3)]


def joint() -> np.ndarray:
    law = np.random.default_rng(5).gamma(0.5, size=SIZES)
    return law / law.sum()


def measured(law: np.ndarray, sets: list[Attributes], total: float) -> list[Measurement]:
    others = [tuple(set(range(len(SIZES))) - set(each)) for each in sets]
    return [
        Measurement(each, total * law.sum(axis=rest), np.array(1.0)) for each, rest in zip(sets, others, strict=True)
    ]


def frequencies(model: Model, attributes: Attributes, count: int) -> np.ndarray:
    rows = model.draw(count, np.random.default_rng(0))
    found = np.zeros([SIZES[i] for i in attributes])
    np.add.at(found, tuple(rows[:, i] for i in attributes), 1 / count)
    return found


def test_drawn_rows_have_the_marginals_that_were_measured() -> None:
    """Also around a loop, and where a combination never occurs."""
    law = joint()
    law[1, 2] = 0
    law /= law.sum()
    model = Model(SIZES, 1_000.0)
    measurements = measured(law, LOOP, model.total)
    model.fit(measurements, steps=600)
    for each in measurements:
        found = frequencies(model, each.attributes, 100_000)
        assert np.abs(found - each.counts / model.total).max() < 6e-3


def test_measurements_of_one_set_are_averaged_by_their_precision() -> None:
    model = Model((2,), 100.0)
    first = Measurement((0,), np.array([90.0, 10.0]), np.array(1.0))
    second = Measurement((0,), np.array([40.0, 60.0]), np.array(2.0))
    model.fit([first, second], steps=500)
    drawn = model.draw(10_000, np.random.default_rng(0))
    assert (drawn[:, 0] == 0).mean() == pytest.approx(0.8, abs=2e-3)


def test_without_a_measurement_values_are_uniform_and_independent() -> None:
    model = Model(SIZES, 10.0)
    model.fit([Measurement((2,), np.array([2.0, 8.0]), np.array(1.0))], steps=200)
    assert np.abs(frequencies(model, (0, 1, 3), 48_000) - 1 / 24).max() < 5e-3


def test_the_same_measurements_give_the_same_model() -> None:
    made = []
    for _ in range(2):
        model = Model(SIZES, 1_000.0)
        model.fit(measured(joint(), LOOP, model.total), steps=50)
        made.append(model.draw(100, np.random.default_rng(1)))
    assert np.array_equal(*made)


def test_cliques_hold_the_sets_and_form_a_tree() -> None:
    draw = np.random.default_rng(2)
    for _ in range(30):
        sizes = tuple(draw.integers(2, 6, size=7).tolist())
        pairs = list(itertools.combinations(range(7), 2))
        sets = [pairs[i] for i in draw.choice(len(pairs), size=8, replace=False)]
        cliques = cliques_of(sizes, [*sets, *((i,) for i in range(7))])
        assert all(any(set(each) <= set(clique) for clique in cliques) for each in sets)
        nodes = tree_of(cliques)
        for i, node in enumerate(nodes):  # running intersection: what was seen before is in the parent
            seen = {j for earlier in nodes[:i] for j in earlier.clique}
            assert set(node.clique) & seen == set(node.shared)
            assert node.parent < i
            assert node.parent < 0 or set(node.shared) <= set(nodes[node.parent].clique)
        cells = sum(math.prod(sizes[i] for i in clique) for clique in cliques)
        assert model_cells(sizes, sets[:-1], [sets[-1]])[0] >= cells
