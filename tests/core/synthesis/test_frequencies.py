"""Low-order frequencies: their sensitivity by brute force, and what they hold of a table."""

from fractions import Fraction

import numpy as np
import pytest
from synthesis_kit import toy_schema

from core.errors import InvalidInput
from core.mechanisms.samplers.discrete_noise import GAUSSIAN_SCALE_MAX
from core.synthesis.columns import STEPS, NumericColumn
from core.synthesis.encoding import EncodedTable, unit_vectors
from core.synthesis.frequencies import FeatureMap, by_column, low_order
from core.synthesis.pearl_release import Design, EmbeddingPlan, embedded, low_order_plan, pearl_release
from core.synthesis.pricing import record_budget
from core.synthesis.schema import TableSchema, table_schema

LABEL = {"name": "label", "kind": "categorical", "categories": ["no", "yes"]}


def schema_of(*sizes: int) -> TableSchema:
    """A categorical column for each number of categories; 0 stands for a numeric column."""
    columns = [
        {"name": f"c{j}", "kind": "categorical", "categories": [str(i) for i in range(size)]}
        if size
        else {"name": f"c{j}", "kind": "numeric", "minimum": 0, "maximum": 1}
        for j, size in enumerate(sizes)
    ]
    return table_schema({"columns": columns, "label": LABEL})


def random_rows(schema: TableSchema, rows: int) -> EncodedTable:
    """Half of the numbers stand at a bound or in the middle."""
    draw = np.random.default_rng(0)
    codes = np.empty((rows, len(schema.columns)), dtype=np.int16)
    for j, column in enumerate(schema.columns):
        if isinstance(column, NumericColumn):
            codes[:, j] = np.where(
                draw.random(rows) < 0.5, draw.integers(0, 3, rows) * STEPS // 2, draw.integers(0, STEPS + 1, rows)
            )
        else:
            codes[:, j] = draw.integers(0, len(column.categories), rows)
    return EncodedTable(schema, codes, draw.integers(0, schema.classes, rows).astype(np.int16))


def contributions(schema: TableSchema, frequencies: int, *, rows: int) -> tuple[np.ndarray, EmbeddingPlan]:
    """What each of many rows adds to the exact integers, `[rows, numbers]`."""
    found = low_order(schema, frequencies=frequencies)
    plan = low_order_plan(found.groups, 4.0)
    features = FeatureMap(found.integers, plan.amplitude)
    table = random_rows(schema, rows)
    alone = [EncodedTable(schema, table.codes[[i]], table.labels[[i]]) for i in range(rows)]
    return np.stack([embedded(row, features, weight=plan.weight).ravel() for row in alone]), plan


def test_no_replaced_row_moves_the_sums_by_more_than_their_sensitivity() -> None:
    for sizes, frequencies in [
        ((0, 3), 200), ((2, 2, 2), 50), ((7, 4, 0), 300), ((0,), 32), ((0, 5, 1), 6), ((5, 5), 4),
    ]:  # fmt: skip
        each, plan = contributions(schema_of(*sizes), frequencies, rows=250)
        products = (each @ each.T).astype(np.float64)
        lengths = np.diag(products)
        moves = lengths[:, None] + lengths[None, :] - 2 * products
        assert moves.max() <= plan.squared_sensitivity
        assert moves.max() >= 0.98 * plan.squared_sensitivity
        assert lengths.max() <= plan.squared_sensitivity / 2  # a row that is added


def test_every_pair_of_columns_is_there_and_nothing_more() -> None:
    schema = schema_of(0, 6, 3)
    found = low_order(schema, frequencies=10_000)
    assert [group.columns for group in found.groups] == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert [group.size for group in found.groups] == [32, 3, 1, 2 * 4 * 3, 2 * 4 * 1, 2 * 3 * 1]
    touched = np.stack([(block != 0).any(axis=1) for block in by_column(schema, found.integers.T)], axis=1)
    expected = [[j in group.columns for j in range(3)] for group in found.groups for _ in range(group.size)]
    assert touched.tolist() == expected


def test_one_column_gives_its_histogram() -> None:
    """The harmonics of m categories, with the count, are m independent numbers."""
    for size in (2, 5, 6):
        schema = schema_of(size)
        features = FeatureMap(low_order(schema, frequencies=64).integers, 4096)
        codes = np.arange(size, dtype=np.int16)[:, None]
        table = EncodedTable(schema, codes, np.zeros(size, dtype=np.int16))
        angles = unit_vectors(schema, table.codes) / STEPS @ features.frequencies.T
        known = np.column_stack([np.ones(size), np.cos(angles), np.sin(angles)])
        assert np.linalg.svd(known, compute_uv=False)[size - 1] > 0.9


def test_there_are_no_more_than_requested() -> None:
    for frequencies in [3, 4, 5, 8, 40, 100]:
        found = low_order(schema_of(0, 6, 3), frequencies=frequencies)
        assert found.integers.shape[1] == sum(group.size for group in found.groups) <= frequencies
        assert {(0,), (1,), (2,)} <= {group.columns for group in found.groups}


def test_fewer_than_columns_are_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        low_order(schema_of(0, 6, 3), frequencies=2)
    assert refused.value.field == "frequencies"


def test_the_noise_is_no_narrower_than_its_multiplier() -> None:
    for multiplier in [0.2, 3.73, 250.0]:
        groups = low_order(schema_of(*[0] * 20, *[9] * 20), frequencies=10_000).groups
        plan = low_order_plan(groups, multiplier)
        needed = Fraction(multiplier) ** 2 * plan.squared_sensitivity
        assert plan.scale**2 - 16 >= needed > (plan.scale - 1) ** 2 - 16 - 1
        assert plan.scale <= GAUSSIAN_SCALE_MAX
        assert plan.squared_sensitivity >= 2 * int((plan.amplitude**2).sum()) + 2 * plan.weight**2


@pytest.mark.parametrize("design", Design)
def test_a_release_is_the_truth_plus_the_stated_noise(design: Design) -> None:
    schema, budget = schema_of(0, 0, 9, 8, 7), record_budget(2, 1e-5)
    table = random_rows(schema, 2_000)
    for public in [True, False]:
        release = pearl_release(table, frequencies=2_000, budget=budget, rows_are_public=public, design=design)
        assert release.rows == (2_000 if public else None)
        assert release.weights.max() == 1
        assert (release.weights.min() > 0.01) if design is Design.LOW_ORDER else (release.weights.min() == 1)
        angles = unit_vectors(schema, table.codes) / STEPS @ release.frequencies.T
        for label in (0, 1):
            mine = angles[table.labels == label]
            off = release.sums[label] - np.stack([np.cos(mine), np.sin(mine)], axis=2).sum(axis=0)
            standard = off * release.weights[:, None] / release.sums_noise
            assert standard.std() == pytest.approx(1, rel=0.1)
            assert abs(standard.mean()) < 0.15
        assert np.abs(release.counts - np.bincount(table.labels)).max() < 8 * release.counts_noise


def test_a_table_that_tells_little_is_no_trouble() -> None:
    for schema in [schema_of(1), schema_of(1, 0), toy_schema(labelled=False)]:
        table = random_rows(schema, 20)
        release = pearl_release(table, frequencies=50, budget=record_budget(1, 1e-5), rows_are_public=True)
        assert np.isfinite(release.sums).all()
