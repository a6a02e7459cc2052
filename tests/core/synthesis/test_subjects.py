"""Tables in which a person has several rows: which rows are used, and that the noise covers all of a person's."""

import math
from typing import Any

import numpy as np
import pytest
from synthesis_kit import SHOP, shop_rows

from core.errors import BadRow, InvalidInput
from core.synthesis import marginals_release, pearl_release
from core.synthesis.columns import Outside
from core.synthesis.encoding import EncodedTable, encode_rows
from core.synthesis.plan import Method, SynthesisPlan
from core.synthesis.pricing import record_budget
from core.synthesis.schema import declared_table

ROWS_MAX = 3
BUDGET = record_budget(2, 1e-5)
DECLARED = declared_table({**SHOP, "subject": {"name": "person", "rows_max": ROWS_MAX}})


def of_people(*people: Any) -> list[dict[str, Any]]:
    return [{"person": person, **row} for person, row in zip(people, shop_rows(len(people)), strict=True)]


def test_the_first_rows_of_each_subject_are_used() -> None:
    rows = of_people("a", "b", "a", 7, "a", "a", " 7 ", "a", "b", "7", "7")
    table = encode_rows(DECLARED, rows, outside=Outside.REFUSE)
    used = [rows[i] for i in (0, 1, 2, 3, 4, 6, 8, 9)]
    plain = [{name: value for name, value in row.items() if name != "person"} for row in used]
    assert table.codes.tolist() == encode_rows(declared_table(SHOP), plain, outside=Outside.REFUSE).codes.tolist()


def test_a_row_without_a_subject_is_refused() -> None:
    for person in (None, "", " ", True, 1.5, []):
        with pytest.raises(BadRow) as error:
            encode_rows(DECLARED, of_people("a", person), outside=Outside.REFUSE)
        assert error.value.faults[0]["reason"] == "no-subject"
    with pytest.raises(BadRow):
        encode_rows(DECLARED, shop_rows(2), outside=Outside.REFUSE)


def test_a_declaration_that_cannot_be_used() -> None:
    for subject, field in [
        ("person", "schema.subject"), ({"name": "person"}, "schema.subject"),
        ({"name": "age", "rows_max": 2}, "schema.subject.name"), ({"name": "", "rows_max": 2}, "schema.subject.name"),
        ({"name": "person", "rows_max": 0}, "schema.subject.rows_max"),
        ({"name": "person", "rows_max": 101}, "schema.subject.rows_max"),
        ({"name": "person", "rows_max": True}, "schema.subject.rows_max"),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput) as error:
            declared_table({**SHOP, "subject": subject})
        assert error.value.field == field
    with pytest.raises(InvalidInput, match="protected"):
        SynthesisPlan("marginals", rows_are_public=True, rows_per_subject=1).check(DECLARED.schema, BUDGET)


@pytest.mark.parametrize("method", ["marginals", "pearl"])
def test_the_noise_covers_all_rows_of_a_subject(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among tables that differ in one subject, the largest change over the noise is at most 1 / multiplier, and near
    it."""
    seen: list[tuple[np.ndarray, int]] = []

    def noted(exact: np.ndarray, *, scale: int) -> np.ndarray:
        seen.append((exact.ravel(), scale))
        return exact

    for module in (marginals_release, pearl_release):
        monkeypatch.setattr(module, "noisy", noted)
    plan = SynthesisPlan(method, rows_are_public=False, frequencies=40, bins=4, rows_per_subject=ROWS_MAX)
    plan.check(DECLARED.schema, BUDGET)

    def exact(table: EncodedTable) -> tuple[np.ndarray, set[int]]:
        seen.clear()
        plan.release(table, BUDGET)
        return np.concatenate([one for one, _ in seen]), {scale for _, scale in seen}

    draw = np.random.default_rng(5)
    others = of_people(*"aabbbbc")
    ends = {"age": (0, 100), "spent": (0, 1), "colour": ("red", "green", "blue"), "buys": ("no", "yes")}

    def person(count: int) -> list[dict[str, Any]]:
        """Rows of one subject, all alike."""
        row = {name: draw.choice(np.array(values, dtype=object)) for name, values in ends.items()}
        return [{"person": "x", **row}] * count

    worst = 0.0
    for _ in range(60):
        first, second = (
            encode_rows(DECLARED, [*person(int(draw.integers(1, 6))), *others], outside=Outside.REFUSE)
            for _ in range(2)
        )
        (before, scales), (after, _) = exact(first), exact(second)
        (scale,) = scales
        worst = max(worst, math.sqrt(float(((after - before).astype(np.float64) ** 2).sum())) / scale)
    assert 0.6 / BUDGET.noise_multiplier < worst <= 1 / BUDGET.noise_multiplier
