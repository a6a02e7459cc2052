"""Tables as people have them: what each kind of column reads, what it writes, and which faults are found at once."""

import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from core.errors import BadRow, InvalidInput
from core.synthesis.columns import Outside
from core.synthesis.encoding import decode_rows, encode_rows
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pricing import record_budget
from core.synthesis.schema import declared_table

SECRET = "s3cr3t"


def through(declared: dict[str, Any], *values: object, outside: Outside = Outside.REFUSE) -> list[Any]:
    """The values of one column as they are written after they were encoded."""
    table = declared_table({"columns": [{"name": "x", **declared}]})
    rows = [{"x": value} for value in (*values, values[0])]
    return [row["x"] for row in decode_rows(encode_rows(table, rows, outside=outside))][:-1]


def refused(declared: dict[str, Any], value: object) -> dict[str, Any]:
    with pytest.raises(BadRow) as error:
        through(declared, value)
    (fault,) = error.value.faults
    assert SECRET not in json.dumps(fault)
    return dict(fault)


AMOUNT = {"kind": "numeric", "minimum": 0, "maximum": 10_000}
COUNT = {"kind": "numeric", "minimum": 0, "maximum": 20, "integer": True}
COLOUR = {"kind": "categorical", "categories": ["red", "green"]}
GRADE = {"kind": "categorical", "categories": [1, 2, 3]}
BORN = {"kind": "date", "minimum": "2024-01-01", "maximum": "2024-01-20"}
TIME = {"kind": "date", "minimum": "2024-01-01T00:00Z", "maximum": "2024-01-01T12:00Z", "step": "hour", "bins": 13}


@pytest.mark.parametrize("declared", [AMOUNT, COUNT, COLOUR, GRADE, BORN, TIME, {"kind": "boolean"}], ids=str)
@pytest.mark.parametrize("value", [None, "", "  ", "NA", " n/a "])
def test_a_missing_value_is_a_category_where_it_is_declared(declared: dict[str, Any], value: object) -> None:
    assert through({**declared, "missing": ["NA", "n/a"]}, value) == [None]
    assert refused(declared, None)["reason"] == "missing"


@pytest.mark.parametrize(
    ("declared", "value", "written"),
    [
        ({}, "277.5", 277.5), ({}, " 1e3 ", 1000), ({}, "+5", 5), ({}, ".5", 0.5), ({}, 277.5, 277.5),
        ({"decimal": ","}, "277,5", 277.5), ({"decimal": ",", "thousands": "."}, "1.234,50", 1234.5),
        ({"thousands": ","}, "1,234.50", 1234.5), ({"thousands": "'"}, "1'234", 1234),
        ({"thousands": " "}, "1 234", 1234), ({"thousands": "\u202f", "decimal": ","}, "1\u202f234,5", 1234.5),
        ({"thousands": " "}, "1\u00a0234", 1234), ({"thousands": "\u00a0"}, "1\u202f234", 1234),
        ({"thousands": ","}, "1234", 1234), ({"decimal": ","}, 277.5, 277.5), ({"integer": True}, "41.0", 41),
    ],
)  # fmt: skip
def test_a_number_is_read_as_it_is_declared(declared: dict[str, Any], value: object, written: float) -> None:
    assert through({**AMOUNT, **declared}, value) == [pytest.approx(written, abs=10_000 / 8192)]


@pytest.mark.parametrize(
    "value",
    ["1,234", "1.234,5", "12,34.5", "1_000", "0x10", "nan", "inf", "1 234", "\u0661", "--1", "1e999", SECRET, True, []],
)  # fmt: skip
def test_another_text_is_no_number(value: object) -> None:
    assert refused(AMOUNT, value)["reason"] in ("not-a-number", "not-finite")


@pytest.mark.parametrize("value", ["Yes", "yes", "Y", "TRUE", "true", "t", "1", " 1 ", "1.0", True, 1, 1.0])
def test_a_boolean_is_read_in_the_usual_words(value: object) -> None:
    no = {"Y": "N", "t": "f", 1.0: 0.0}.get(value, "no")
    assert through({"kind": "boolean"}, value, no) == [True, False]
    assert through({"kind": "boolean", "true": "Ja", "false": "Nein"}, value, "NEIN") == ["Ja", "Nein"]
    assert refused({"kind": "boolean"}, "ja")["permitted"] == "true or false, yes or no, 1 or 0"


@pytest.mark.parametrize("value", [3, "3", " 3 ", 3.0, "3.0", "03", "3."])
def test_a_code_is_read_as_number_and_as_text(value: object) -> None:
    assert through(GRADE, value) == [3]


def test_a_category_is_read_as_it_is_declared() -> None:
    assert through({"kind": "categorical", "categories": ["03", "3"]}, "03", "3", 3, 3.0) == ["03", "3", "3", "3"]
    assert through({"kind": "categorical", "categories": ["1.0", "2"]}, 1.0, "1.0", 2.0) == ["1.0", "1.0", "2"]
    for declared, value in [(COLOUR, "Red"), (COLOUR, "blue"), (GRADE, "3.5"), (GRADE, True), (GRADE, "4")]:
        assert refused(declared, value)["reason"] == "unknown-category"
    many = {"kind": "categorical", "categories": [f"c{i}" for i in range(300)]}
    assert refused(many, SECRET)["permitted"] == "one of c0, c1, c2, c3, c4 and 295 more"


@pytest.mark.parametrize(
    ("declared", "value", "written"),
    [
        (BORN, "2024-01-05", "2024-01-05"), (BORN, "20240105", "2024-01-05"), (BORN, "2024-01-05T23:59", "2024-01-05"),
        (BORN, "2024-01-01", "2024-01-01"), (BORN, "2024-01-20", "2024-01-20"),
        ({**BORN, "format": "%d.%m.%Y"}, "05.01.2024", "2024-01-05"),
        ({**BORN, "format": "%m/%d/%Y %H:%M"}, "01/05/2024 10:30", "2024-01-05"),
        (TIME, "2024-01-01T05:30Z", "2024-01-01T05:00:00Z"), (TIME, "2024-01-01T05:30", "2024-01-01T05:00:00Z"),
        (TIME, "2024-01-01T07:30+02:00", "2024-01-01T05:00:00Z"), (TIME, "2024-01-01T12:00Z", "2024-01-01T12:00:00Z"),
        ({"kind": "date", "minimum": "2024-01-01", "maximum": "2024-01-01", "step": "hour"}, "2024-01-01 23:10",
         "2024-01-01T23:00:00"),
    ],
)  # fmt: skip
def test_a_date_is_read_and_written(declared: dict[str, Any], value: str, written: str) -> None:
    assert through(declared, value) == [written]


def test_another_text_is_no_date() -> None:
    for value in ["2024-02-30", "05.01.2024", SECRET, 20240105, "2024-01-05" * 9]:
        assert refused(BORN, value)["reason"] == "not-a-date"
    assert refused(BORN, "2024-01-05T10:00Z")["reason"] == "unexpected-offset"
    fault = refused(BORN, "2025-01-01")
    assert fault["reason"] == "outside-bounds"
    assert fault["permitted"] == "a date such as 2024-01-01, from 2024-01-01 to 2024-01-20"
    assert through(BORN, "2025-01-01", outside=Outside.CLIP) == ["2024-01-20"]


def test_points_are_kept_exactly_and_bins_nearly() -> None:
    skewed = {"kind": "numeric", "minimum": 1, "maximum": 1_000_000, "scale": "log", "points": [0, -1]}
    zero, low, high, odd, inside = through(skewed, 0, 1, 1_000_000, -1, 277)
    assert (zero, odd) == (0, -1)
    ratio = 10 ** (6 / 32)
    assert 1 <= low <= ratio
    assert 1_000_000 / ratio <= high <= 1_000_000
    assert 277 / ratio < inside < 277 * ratio
    assert refused(skewed, 0.5)["permitted"] == "a number from 1 to 1000000, or 0 or -1"
    assert through(skewed, 0.5, outside=Outside.CLIP)[0] <= ratio
    counts = through({**COUNT, "missing": True}, *range(21))
    assert counts == list(range(21)), "few whole numbers have a bin each"
    assert all(isinstance(number, int) for number in through({**COUNT, "maximum": 10**6, "bins": 4}, 3, 10**6))


def test_columns_in_an_order_ascend_in_every_synthetic_row() -> None:
    joined = {"name": "joined", "kind": "date", "minimum": "2024-01-01", "maximum": "2024-12-31", "missing": True}
    columns = [joined, {**joined, "name": "left", "format": "%d.%m.%Y"}, {"name": "x", **AMOUNT}]
    schema = {"columns": columns, "order": [["joined", "left"]]}
    declared = declared_table(json.loads(json.dumps(declared_table(schema).schema.as_json())))
    days = ["2024-01-05", "2024-06-05", "2024-12-05", None]
    rows = [{"joined": days[i % 4], "left": None if i % 5 else "05.03.2024", "x": i} for i in range(60)]
    table = encode_rows(declared, rows, outside=Outside.REFUSE)
    pairs = [(row["joined"], row["left"]) for row in decode_rows(table)]
    assert all(first <= last for first, last in pairs if first and last)
    assert [first is None for first, _ in pairs] == [day is None for day in days] * 15
    wrong = [SECRET, [["joined"]], [["joined", SECRET]], [["joined", "left"], ["left", "joined"]], [["joined", "x"]]]
    for order in [*wrong, [["joined", ["left"]]]]:
        with pytest.raises(InvalidInput) as error:
            declared_table({"columns": columns, "order": order})
        assert error.value.field == "schema.order", order


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("minimum", {**AMOUNT, "minimum": "?"}), ("maximum", {**AMOUNT, "maximum": "?"}),
    ("minimum", {**AMOUNT, "scale": "log"}), ("scale", {**AMOUNT, "scale": SECRET}), ("bins", {**AMOUNT, "bins": 0}),
    ("bins", {**AMOUNT, "bins": 257}), ("bins", {**AMOUNT, "bins": True}), ("points", {**AMOUNT, "points": [0, 0]}),
    ("points", {**AMOUNT, "points": SECRET}), ("points", {**COUNT, "points": [0.5]}),
    ("points", {**AMOUNT, "points": list(range(17))}), ("decimal", {**AMOUNT, "decimal": SECRET}),
    ("thousands", {**AMOUNT, "thousands": "."}), ("thousands", {**AMOUNT, "thousands": []}),
    ("missing", {**AMOUNT, "missing": SECRET}), ("missing", {**AMOUNT, "missing": [5]}),
    ("categories", {**COLOUR, "categories": "?"}), ("categories", {**COLOUR, "categories": [1, "2"]}),
    ("categories", {**GRADE, "categories": [1, 1]}), ("true", {"kind": "boolean", "true": SECRET}),
    ("true", {"kind": "boolean", "true": SECRET, "false": SECRET}), ("step", {**BORN, "step": SECRET}),
    ("minimum", {**BORN, "minimum": SECRET}), ("maximum", {**BORN, "maximum": "?"}),
    ("minimum", {**BORN, "minimum": 5}),
    ("maximum", {**BORN, "maximum": "2024-01-01"}), ("maximum", {**TIME, "maximum": "2024-01-02"}),
    ("format", {**BORN, "format": "%d.%m"}), ("format", {**BORN, "format": "%d.%d.%m.%Y"}),
    ("format", {**BORN, "format": f"%d.%m.%Y{SECRET}"}), ("format", {**BORN, "format": 5}),
]  # fmt: skip


def test_a_declaration_that_cannot_be_used_names_its_place() -> None:
    for place, declared in REFUSED:
        with pytest.raises(InvalidInput) as error:
            declared_table({"columns": [{"name": "x", **declared}]})
        assert error.value.field == f"schema.columns.0.{place}", declared
        assert SECRET not in str(error.value)
    for label in (AMOUNT, BORN, {**COUNT, "missing": True}):
        with pytest.raises(InvalidInput, match="label"):
            declared_table({"columns": [{"name": "x", **COLOUR}], "label": {"name": "y", **label}})
    for ignore in ("id", [5], [""], ["x"], [str(i) for i in range(1_025)]):
        with pytest.raises(InvalidInput) as error:
            declared_table({"columns": [{"name": "x", **COLOUR}], "ignore": ignore})
        assert error.value.field == "schema.ignore"


def test_every_kind_of_schema_goes_through_json() -> None:
    kinds = [AMOUNT, COUNT, COLOUR, GRADE, BORN, TIME, {"kind": "boolean", "true": "Ja", "false": "Nein"}]
    kinds += [{**kind, "missing": True} for kind in kinds] + [{**AMOUNT, "decimal": ",", "points": [0]}]
    columns = [{"name": str(i), **kind} for i, kind in enumerate(kinds)]
    label = {"name": "label", "kind": "boolean", "missing": ["?"]}
    schema = declared_table({"columns": columns, "label": label}).schema
    again = declared_table(json.loads(json.dumps(schema.as_json()))).schema
    assert again == schema
    assert schema.classes == 3


MESSY = {
    "columns": [{"name": "amount", **AMOUNT}, {"name": "colour", **COLOUR}, {"name": "joined", **BORN}],
    "label": {"name": "buys", "kind": "boolean"},
    "ignore": ["id"],
}
GOOD = {"id": SECRET, "amount": 5, "colour": "red", "joined": "2024-01-05", "buys": "yes"}


def faults(rows: Sequence[Any]) -> list[dict[str, Any]]:
    with pytest.raises(BadRow) as error:
        encode_rows(declared_table(MESSY), rows, outside=Outside.REFUSE)
    assert SECRET not in json.dumps(error.value.faults)
    return [dict(fault) for fault in error.value.faults]


def test_all_faults_are_found_at_once() -> None:
    rows: list[Any] = [GOOD] * 40
    rows[2:9] = [{**GOOD, "amount": SECRET}] * 7
    rows[4] = {**GOOD, "amount": SECRET, "colour": SECRET, "joined": ""}
    rows[20] = {name: value for name, value in GOOD.items() if name != "colour"} | {SECRET: SECRET, "Color": "red"}
    rows[21] = SECRET
    rows[22] = {**GOOD, "buys": "maybe", "amount": 10_001}
    found = {(fault["reason"], fault.get("column")): fault for fault in faults(rows)}
    assert found["not-a-number", "amount"]["lines"] == [3, 4, 5, 6, 7]
    assert found["not-a-number", "amount"]["count"] == 7
    assert found["not-a-number", "amount"]["permitted"] == "a number from 0 to 10000"
    assert found["unknown-category", "colour"]["lines"] == [5]
    assert found["missing", "joined"]["lines"] == [5]
    assert found["missing-column", "colour"]["lines"] == [21]
    assert found["wrong-columns", None]["lines"] == [22]
    assert found["unknown-category", "buys"]["permitted"] == "true or false, yes or no, 1 or 0"
    assert found["outside-bounds", "amount"]["lines"] == [23]
    unknown = [fault for fault in faults(rows) if fault["reason"] == "unknown-column"]
    assert [(fault["position"], fault.get("nearest")) for fault in unknown] == [(5, None), (6, "colour")]
    assert len(faults(rows)) == 9


@pytest.mark.parametrize(
    ("written", "nearest"),
    [("Amount", "amount"), ("amuont", "amount"), ("amount ", "amount"), ("amounts", "amount"), ("AMOUNT", "amount"),
     ("amnt", "amount"), ("amount_", "amount"), ("ammount", "amount"), ("price", None), ("", None)],
)  # fmt: skip
def test_a_misspelt_column_is_found(written: str, nearest: str | None) -> None:
    row = {written if name == "amount" else name: value for name, value in GOOD.items()}
    absent, unknown = faults([row, row])
    assert (absent["column"], absent["count"]) == ("amount", 2)
    assert (unknown["position"], unknown.get("nearest")) == (2, nearest)


def test_a_long_name_is_compared_by_its_first_characters() -> None:
    long = "measured_" * 20
    table = declared_table({"columns": [{"name": long, **COUNT}]})
    with pytest.raises(BadRow) as error:
        encode_rows(table, [{long.title() + "x" * 100_000: 1}] * 2, outside=Outside.REFUSE)
    assert [fault.get("nearest") for fault in error.value.faults] == [None, long]


def test_the_list_of_faults_is_bounded() -> None:
    rows = [{**GOOD, **{f"{SECRET}{i}.{j}": "x" * 10_000 for j in range(20)}} for i in range(200)]
    rows += [{f"{SECRET}{i}": 1} for i in range(200)]
    rows.append({**GOOD, **{f"{SECRET}{j}": 1 for j in range(300)}})
    found = faults(rows)
    assert len(found) == 50
    assert all(len(fault["lines"]) <= 5 for fault in found)
    assert len(json.dumps(found)) < 10_000
    wide = declared_table({"columns": [{"name": str(i), **COUNT} for i in range(1_000)]})
    with pytest.raises(BadRow) as error:
        encode_rows(wide, [{}] * 1_000_000, outside=Outside.REFUSE)
    assert error.value.faults[0]["count"] == 100


def test_the_columns_of_a_table_without_faults_may_have_an_id_or_not() -> None:
    plain = {name: value for name, value in GOOD.items() if name != "id"}
    (one, _) = decode_rows(encode_rows(declared_table(MESSY), [GOOD, plain], outside=Outside.REFUSE))
    assert set(one) == {"amount", "colour", "joined", "buys"}


def test_quartiles_of_a_skewed_column_survive_a_release() -> None:
    """2,000 rows at epsilon 3: a fifth is zero, a tenth is missing, the rest has a median of 277. Many rows are drawn,
    so that only the noise of the release moves the figures: in 210 runs, the median by .11 at most, quartiles by .14.
    """
    draw = np.random.default_rng(0)
    spent = [
        0.0 if u < 0.2 else None if u < 0.3 else float(draw.lognormal(math.log(277), 1.2)) for u in draw.random(2_000)
    ]
    skewed = {"kind": "numeric", "minimum": 1, "maximum": 1_000_000, "scale": "log", "points": [0], "missing": True}
    others = [{"name": f"c{i}", **COLOUR} for i in range(5)]
    dates = {"name": "joined", "kind": "date", "minimum": "2015-01-01", "maximum": "2024-12-31", "missing": True}
    table = declared_table({"columns": [{"name": "spent", **skewed}, dates, *others], "label": {"name": "y", **COLOUR}})
    rows = [
        {"spent": one, "joined": f"20{15 + i % 5}-03-01", "y": "red", **{f"c{j}": "green" for j in range(5)}}
        for i, one in enumerate(spent)
    ]
    encoded = encode_rows(table, rows, outside=Outside.CLIP)
    release = marginals_release(encoded, bins=16, budget=record_budget(3, 1e-5), rows_are_public=True)
    sample = decode_rows(release.sample(40_000))
    made = [row["spent"] for row in sample]
    for count in (lambda values: sum(one is None for one in values), lambda values: sum(one == 0 for one in values)):
        assert count(made) / 40_000 == pytest.approx(count(spent) / 2_000, abs=0.02)
    before, after = (np.array([one for one in values if one]) for values in (spent, made))
    assert np.median(after) == pytest.approx(np.median(before), rel=0.15)
    assert np.quantile(after, [0.25, 0.75]) == pytest.approx(np.quantile(before, [0.25, 0.75]), rel=0.25)
    years = [datetime.fromisoformat(row["joined"]).year for row in sample if row["joined"]]
    assert np.mean(years) == pytest.approx(2017, abs=0.3)
