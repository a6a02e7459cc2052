"""The page about a synthesis: whole, by itself, and with nothing in it that a browser would run."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from tiers import cells

from core.synthesis.encoding import EncodedTable
from core.synthesis.marginals_release import MarginalsRelease
from core.synthesis.plan import SynthesisPlan
from core.synthesis.pricing import record_budget
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.synthesis.report import Facts, page

HOSTILE = '"><script>alert(1)</script>'
VOID = {"meta", "rect", "line", "polyline"}


class Tags(HTMLParser):
    """Every tag, and whether each was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            continue


def schema(*, classes: int, numeric: int = 2) -> TableSchema:
    numbers = [
        {"name": f"n{i}", "kind": "numeric", "minimum": -1, "maximum": 5, "integer": i == 0} for i in range(numeric)
    ]
    colour = {"name": HOSTILE, "kind": "categorical", "categories": ["one", HOSTILE, *map(str, range(60))]}
    label = {"name": "y", "kind": "categorical", "categories": [HOSTILE, *map(str, range(classes - 1))]}
    return table_schema({"columns": [*numbers, colour], "label": label if classes > 1 else None})


def page_of(declared: TableSchema, method: str, curve: tuple[tuple[int, float], ...] = ()) -> str:
    draw = np.random.default_rng(2)
    codes = np.column_stack([draw.integers(0, 62 if column.width > 1 else 4_097, 50) for column in declared.columns])
    table = EncodedTable(declared, codes.astype(np.int16), draw.integers(0, declared.classes, 50).astype(np.int16))
    release = SynthesisPlan(method, rows_are_public=True, frequencies=200).release(table, record_budget(1, 1e-5))
    facts = Facts(method, "shop", True, 50, 1.0, 1e-5, 3.73)
    return page(facts, release, table, curve)


@pytest.mark.parametrize(("classes", "method"), cells([(2, "pearl"), (1, "marginals"), (9, "pearl")], fast=2))
def test_a_page_is_whole_and_runs_nothing(classes: int, method: str) -> None:
    made = page_of(schema(classes=classes), method, ((1, 30.0), (2, 4.0), (3, 1.1)))
    tags = Tags()
    tags.feed(made)
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.seen)
    assert not re.search(r"https?:|url\(|@import|javascript:", made)
    assert "&lt;script&gt;" in made
    assert tags.open == []
    assert made.count("<svg") >= 5
    assert ("<h2>Classes</h2>" in made) == ("Classifiers" in made) == (classes > 1)


def test_wide_tables_show_some_columns() -> None:
    made = page_of(schema(classes=2, numeric=70), "marginals")
    assert "23 further columns are not shown" in made
    assert "of the first 32 columns" in made
    assert "<h2>Training</h2>" not in made


def test_a_bar_tells_its_share() -> None:
    declared = schema(classes=1)
    table = EncodedTable(declared, np.tile(np.array([0, 4_096, 1], dtype=np.int16), (10, 1)), np.zeros(10, np.int16))
    release = SynthesisPlan("marginals", rows_are_public=True).release(table, record_budget(1, 1e-5))
    made = page(Facts("marginals", "shop", True, 10, 1.0, 1e-5, 3.73), release, table, ())
    assert "<title>-1: 100.0%</title>" in made
    assert "<title>5: 100.0%</title>" in made


def sums_table(*, classes: int, count: int, numeric: int = 3) -> EncodedTable:
    """Of rows whose class follows from the sum of their numbers."""
    draw = np.random.default_rng(5)
    declared = schema(classes=classes, numeric=numeric)
    numbers = draw.integers(0, 4_097, (count, numeric))
    ranks = numbers.sum(axis=1).argsort().argsort()
    codes = np.column_stack([numbers, draw.integers(0, 62, count)]).astype(np.int16)
    return EncodedTable(declared, codes, (ranks * classes // count).astype(np.int16))


def rows_of_scores(made: str) -> dict[str, list[float]]:
    """The classifiers' lines of a page."""
    lines = re.findall(r"<tr><td>([A-Z][a-zA-Z ]+)</td>((?:<td class=\"number\">[0-9.]+</td>)+)</tr>", made)
    return {name: [float(value) for value in re.findall(r"[0-9.]+(?=<)", cells)] for name, cells in lines}


def release_of(table: EncodedTable) -> MarginalsRelease:
    return SynthesisPlan("marginals", rows_are_public=True).release(table, record_budget(100, 1e-5))


def test_classifiers_are_tested_on_other_synthetic_rows() -> None:
    for classes, measures in [(2, ["ROC AUC", "Average precision"]), (3, ["Accuracy", "Macro-F1"])]:
        table = sums_table(classes=classes, count=400)
        made = page(Facts("marginals", "shop", True, 400, 1.0, 1e-5, 3.73), release_of(table), table, ())
        assert "it does not measure how these classifiers perform on real rows" in made
        assert "280 rows to train on, 120 to test on" in made
        assert all(f">{measure}</th>" in made for measure in measures)
        scores = rows_of_scores(made)
        assert len(scores) == 5
        assert scores["Logistic regression"][0] > scores["Always the commonest class"][0] + 0.2
        assert all(0 <= value <= 1 for line in scores.values() for value in line)


def test_no_scores_without_enough_rows() -> None:
    table = sums_table(classes=2, count=400)
    for codes, labels in [
        (table.codes[:60], table.labels[:60]),
        (table.codes, np.ones_like(table.labels)),
        (np.zeros_like(table.codes), table.labels),
    ]:
        drawn = EncodedTable(table.schema, codes, labels)
        made = page(Facts("marginals", "shop", True, 400, 1.0, 1e-5, 3.73), release_of(table), drawn, ())
        assert "Not enough rows" in made
        assert rows_of_scores(made) == {}
