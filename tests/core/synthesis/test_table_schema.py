"""What may be declared, which rows fit it, and that no refusal repeats what it refuses.

Embeddings are a table of numeric columns, written as lists.
"""

import math
from typing import Any

import pytest
from synthesis_kit import SHOP

from core.errors import BadRow, InvalidInput
from core.synthesis.columns import STEPS, Outside
from core.synthesis.encoding import decode_rows, encode_rows, unit_vectors
from core.synthesis.schema import COLUMNS_MAX, WIDTH_MAX, declared_table, table_schema

SECRET = "s3cr3t"
AGE: dict[str, Any] = {"name": "age", "kind": "numeric", "minimum": 17, "maximum": 90, "integer": True}
HOURS: dict[str, Any] = {"name": "hours", "kind": "numeric", "minimum": 0.0, "maximum": 1.0}
SEX: dict[str, Any] = {"name": "sex", "kind": "categorical", "categories": ["f", "m"]}
INCOME: dict[str, Any] = {"name": "income", "kind": "categorical", "categories": ["low", "high"]}
DECLARED: dict[str, Any] = {"columns": [AGE, HOURS, SEX], "label": INCOME}
ROW: dict[str, Any] = {"age": 40, "hours": 0.25, "sex": "m", "income": "high"}


def test_a_schema_goes_through_json() -> None:
    schema = table_schema(DECLARED)
    assert table_schema(schema.as_json()) == schema
    assert (schema.width, schema.classes, schema.squared_diameter) == (4, 2, 4)
    assert table_schema({"columns": [AGE]}).classes == 1


def without(column: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in column.items() if name != key}


REFUSED_DECLARATIONS: list[tuple[str, dict[str, Any]]] = [
    ("schema", {"columns": [AGE], SECRET: 1}), ("schema.columns", {"columns": []}), ("schema.columns", {}),
    ("schema.columns", {"columns": SECRET}), ("schema.columns", {"columns": [AGE, AGE]}),
    ("schema.columns", {"columns": [AGE], "label": {**INCOME, "name": "age"}}),
    ("schema.columns", {"columns": [{**HOURS, "name": str(i)} for i in range(COLUMNS_MAX + 1)]}),
    ("schema.columns.0", {"columns": [SECRET]}), ("schema.columns.0", {"columns": [{**AGE, SECRET: 1}]}),
    ("schema.columns.0.kind", {"columns": [{**AGE, "kind": SECRET}]}),
    ("schema.columns.0.name", {"columns": [{**AGE, "name": ""}]}),
    ("schema.columns.0.name", {"columns": [{**AGE, "name": 5}]}),
    ("schema.columns.0.minimum", {"columns": [without(AGE, "minimum")]}),
    ("schema.columns.0.maximum", {"columns": [without(AGE, "maximum")]}),
    ("schema.columns.0.maximum", {"columns": [{**AGE, "maximum": 17}]}),
    ("schema.columns.0.minimum", {"columns": [{**AGE, "minimum": math.nan}]}),
    ("schema.columns.0.maximum", {"columns": [{**AGE, "maximum": math.inf}]}),
    ("schema.columns.0.minimum", {"columns": [{**AGE, "minimum": SECRET}]}),
    ("schema.columns.0.minimum", {"columns": [{**AGE, "minimum": True}]}),
    ("schema.columns.0.minimum", {"columns": [{**AGE, "minimum": 17.5}]}),
    ("schema.columns.0.integer", {"columns": [{**AGE, "integer": 1}]}),
    ("schema.columns.0.categories", {"columns": [without(SEX, "categories")]}),
    ("schema.columns.0.categories", {"columns": [{**SEX, "categories": SECRET}]}),
    ("schema.columns.0.categories", {"columns": [{**SEX, "categories": []}]}),
    ("schema.columns.0.categories", {"columns": [{**SEX, "categories": [SECRET, SECRET]}]}),
    ("schema.columns.0.categories", {"columns": [{**SEX, "categories": [SECRET, 5]}]}),
    ("schema.label.kind", {"columns": [SEX], "label": AGE}),
    ("schema.label.categories", {"columns": [SEX], "label": {**INCOME, "categories": [SECRET]}}),
]  # fmt: skip


def test_a_declaration_that_lacks_something_is_refused() -> None:
    for field, declared in REFUSED_DECLARATIONS:
        with pytest.raises(InvalidInput) as refused:
            table_schema(declared)
        assert refused.value.field == field
        assert SECRET not in str(refused.value)


def test_a_schema_is_no_wider_than_its_limit() -> None:
    wide = [{**SEX, "name": str(i), "categories": [str(j) for j in range(1_024)]} for i in range(2)]
    assert table_schema({"columns": wide}).width == WIDTH_MAX
    with pytest.raises(InvalidInput) as refused:
        table_schema({"columns": [*wide, AGE, SECRET]})
    assert refused.value.field == "schema.columns", "columns beyond the limit are not read"


def test_rows_come_back_within_half_a_step() -> None:
    schema = table_schema(DECLARED)
    rows = [ROW, {"age": 17, "hours": 0.0, "sex": "f", "income": "low"}, {**ROW, "age": 90, "hours": 0.7071}]
    table = encode_rows(schema, rows, outside=Outside.REFUSE)
    assert len(table) == 3
    for before, after in zip(rows, decode_rows(table), strict=True):
        assert after["hours"] == pytest.approx(before["hours"], abs=0.5 / STEPS)
        assert {**after, "hours": before["hours"]} == before
        assert isinstance(after["age"], int)


def test_unit_vectors_are_steps_and_one_hot() -> None:
    table = encode_rows(table_schema(DECLARED), [ROW, {**ROW, "age": 17, "sex": "f"}], outside=Outside.REFUSE)
    assert (unit_vectors(table.schema, table.codes)[:, 1:] / STEPS).tolist() == [[0.25, 0, 1], [0.25, 1, 0]]
    assert unit_vectors(table.schema, table.codes)[1, 0] == 0


def test_a_number_outside_is_clipped_only_on_request() -> None:
    schema = table_schema(DECLARED)
    rows = [{**ROW, "age": 1}, {**ROW, "hours": 7.5}]
    clipped = decode_rows(encode_rows(schema, rows, outside=Outside.CLIP))
    assert (clipped[0]["age"], clipped[1]["hours"]) == (17, 1.0)
    with pytest.raises(InvalidInput) as refused:
        encode_rows(schema, rows, outside=Outside.REFUSE)
    assert refused.value.field == "rows.0.columns.0"
    assert "7.5" not in str(refused.value)


REFUSED_ROWS: list[tuple[str, list[Any]]] = [
    ("rows", []), ("rows", [ROW]), ("rows.1", [ROW, SECRET]), ("rows.1", [ROW, without(ROW, "sex")]),
    ("rows.1", [ROW, {**ROW, SECRET: 1}]), ("rows.1.columns.1", [ROW, {**ROW, "hours": math.nan}]),
    ("rows.1.columns.1", [ROW, {**ROW, "hours": -math.inf}]), ("rows.1.columns.1", [ROW, {**ROW, "hours": 10**400}]),
    ("rows.1.columns.1", [ROW, {**ROW, "hours": SECRET}]), ("rows.1.columns.1", [ROW, {**ROW, "hours": True}]),
    ("rows.1.columns.1", [ROW, {**ROW, "hours": None}]), ("rows.1.columns.0", [ROW, {**ROW, "age": 40.5}]),
    ("rows.1.columns.2", [ROW, {**ROW, "sex": SECRET}]), ("rows.1.columns.2", [ROW, {**ROW, "sex": ["f"]}]),
    ("rows.0.label", [{**ROW, "income": SECRET}, ROW]),
]  # fmt: skip


def test_a_row_that_does_not_fit_is_refused() -> None:
    for outside in Outside:
        for field, rows in REFUSED_ROWS:
            with pytest.raises(InvalidInput) as refused:
                encode_rows(table_schema(DECLARED), rows, outside=outside)
            assert refused.value.field == field
            assert SECRET not in str(refused.value)


LABEL = SHOP["label"]
EMBEDDING = {"dimension": 3, "minimum": -1, "maximum": 1}


def test_a_row_there_and_back() -> None:
    declared = declared_table({"embedding": EMBEDDING, "label": LABEL})
    assert declared.schema.names == ("embedding.0", "embedding.1", "embedding.2", "buys")
    written = {"embedding": [0.5, 0, 1], "buys": "yes"}
    flat = declared.row(written, number=0)
    assert flat == {"embedding.0": 0.5, "embedding.1": 0, "embedding.2": 1, "buys": "yes"}
    assert declared.written(flat) == written
    table = declared_table(SHOP)
    assert table.row({"age": 1}, number=0) == table.written({"age": 1}) == {"age": 1}


def test_what_is_no_embedding_is_refused() -> None:
    for row in [{}, [], None, {"embedding": [1, 2]}, {"embedding": "abc"}, {"embedding": [1] * 4}]:
        with pytest.raises(BadRow) as refused:
            declared_table({"embedding": EMBEDDING, "label": LABEL}).row(row, number=7)
        assert refused.value.row == 7


def test_a_declaration_that_cannot_be_used() -> None:
    for declared, field in [
        ({"embedding": {**EMBEDDING, "dimension": 0}}, "schema.embedding.dimension"),
        ({"embedding": {**EMBEDDING, "dimension": True}}, "schema.embedding.dimension"),
        ({"embedding": {**EMBEDDING, "dimension": 1_025}}, "schema.embedding.dimension"),
        ({"embedding": {"dimension": 3, "maximum": 1}}, "schema.embedding.minimum"),
        ({"embedding": {**EMBEDDING, "walrus": 1}}, "schema.embedding"),
        ({"embedding": [], "label": LABEL}, "schema.embedding"),
        ({"embedding": EMBEDDING, "columns": []}, "schema"),
        ({"embedding": EMBEDDING, "label": {**LABEL, "name": "embedding"}}, "schema.label.name"),
        ({"embedding": EMBEDDING, "label": {**LABEL, "name": "embedding.1"}}, "schema.columns"),
        ({"embedding": EMBEDDING, "label": {**LABEL, "categories": ["one"]}}, "schema.label.categories"),
        (None, "schema"),
    ]:
        with pytest.raises(InvalidInput) as refused:
            declared_table(declared)
        assert refused.value.field == field
