"""Whether a budget is enough is known before a row is read, and the answer names one that is."""

import re

import pytest
from synthesis_kit import table_of, toy_schema
from tiers import cells

from core.errors import InvalidInput, OutOfRange
from core.synthesis.pearl_release import Design
from core.synthesis.plan import SynthesisPlan
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
