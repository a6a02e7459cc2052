"""Whether a budget is enough is known before a row is read, and the answer names one that is.

A release comes back from its bytes, and what is no release is refused.
"""

import re

import msgpack
import numpy as np
import pytest
from synthesis_kit import table_of, toy_schema
from tiers import cells

from core.errors import InvalidInput, OutOfRange
from core.synthesis.marginals_release import MarginalsRelease, marginals_release
from core.synthesis.pearl_release import Design, PearlRelease, pearl_release
from core.synthesis.plan import SynthesisPlan, release_bytes, release_of
from core.synthesis.pricing import record_budget


@pytest.mark.parametrize("delta", cells([1e-9, 1e-12], kind="grid"))
def test_a_budget_that_is_too_small_names_the_smallest(delta: float) -> None:
    for plan, columns in [
        (SynthesisPlan("pearl", rows_are_public=True, frequencies=10_000, design=Design.GAUSSIAN), 3),
        (SynthesisPlan("pearl", rows_are_public=False, frequencies=10_000, design=Design.GAUSSIAN), 3),
        (SynthesisPlan("pearl", rows_are_public=True, frequencies=1, design=Design.GAUSSIAN), 1_000),
        (SynthesisPlan("pearl", rows_are_public=True, frequencies=10_000), 100),
        (SynthesisPlan("marginals", rows_are_public=True), 1_000),
    ]:
        schema = toy_schema(numeric=columns)
        with pytest.raises(OutOfRange) as refused:
            plan.check(schema, record_budget("0.001", delta))
        assert refused.value.field == "epsilon"
        found = re.search(r"smallest epsilon that suffices is ([0-9.e-]+)\.$", refused.value.detail)
        assert found is not None, refused.value.detail
        named = float(found.group(1))
        plan.check(schema, record_budget(named, delta))
        with pytest.raises(OutOfRange):
            plan.check(schema, record_budget(named * 0.99, delta))


def test_what_was_checked_is_what_is_released() -> None:
    table = table_of(toy_schema(), [(0, 0, 0), (4096, 1, 1)] * 20)
    budget = record_budget(1, 1e-5)
    for plan in (SynthesisPlan("pearl", True, frequencies=5), SynthesisPlan("marginals", False, bins=4)):
        plan.check(table.schema, budget)
        release = plan.release(table, budget)
        assert release.rows == (40 if plan.rows_are_public else None)
    for bad in (SynthesisPlan("pearl", True, frequencies=0), SynthesisPlan("marginals", True, bins=257)):
        with pytest.raises(InvalidInput):
            bad.check(table.schema, budget)


TABLE = table_of(toy_schema(), [(0, 0, 0), (4096, 1, 1), (2000, 2, 1)])
BUDGET = record_budget(1, 1e-5)


def test_a_pearl_release_comes_back() -> None:
    for design in Design:
        for public in [True, False]:
            release = pearl_release(TABLE, frequencies=7, budget=BUDGET, rows_are_public=public, design=design)
            again = release_of(release_bytes(release))
            assert isinstance(again, PearlRelease)
            assert (again.schema, again.rows, again.mean_distance) == (
                release.schema,
                release.rows,
                release.mean_distance,
            )
            assert again.design is design
            assert (again.sums_noise, again.counts_noise) == (release.sums_noise, release.counts_noise)
            assert np.array_equal(again.frequencies, release.frequencies)
            assert np.array_equal(again.weights, release.weights)
            assert np.array_equal(again.sums, release.sums)
            assert np.array_equal(again.counts, release.counts)


def test_marginals_come_back() -> None:
    release = marginals_release(TABLE, bins=5, budget=BUDGET, rows_are_public=True)
    again = release_of(release_bytes(release))
    assert isinstance(again, MarginalsRelease)
    assert (again.schema, again.rows, again.bins, again.noise) == (release.schema, 3, 5, release.noise)
    for before, after in zip(release.tables, again.tables, strict=True):
        assert np.array_equal(before, after)
    assert np.array_equal(again.classes, release.classes)


def test_what_is_no_release_is_refused() -> None:
    packed = release_bytes(pearl_release(TABLE, frequencies=2, budget=BUDGET, rows_are_public=True))
    facts = msgpack.unpackb(packed)
    for broken in (
        {"format": "another"}, {"mechanism": "copula"}, {"design": "another"}, {"schema": {"columns": []}},
        {"arrays": facts["arrays"][:2]}, {"arrays": facts["arrays"][::-1]}, {"further": 1},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="not a release"):
            release_of(msgpack.packb(facts | broken))
    shape, numbers = facts["arrays"][3]
    facts["arrays"][3] = [shape, b"\xff" * len(numbers)]
    for bad in (b"", b"\x80", packed[:-1], msgpack.packb(facts)):
        with pytest.raises(ValueError, match="not a release"):
            release_of(bad)
