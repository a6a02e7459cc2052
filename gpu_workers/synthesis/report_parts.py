"""The parts of the page about a synthesis: the document, the grid of columns, pairs, scores.

No guarantee of its own: a part shows the rows that it receives. Names come from the caller and are escaped by this
module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from core.synthesis.encoding import STEPS, EncodedTable
from core.synthesis.schema import Column, NumericColumn, TableSchema
from gpu_workers.synthesis import report_charts as charts
from gpu_workers.synthesis.label_scores import ROWS_MIN, LabelScores, measures

STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5b6475; --paper: #fff; --card: #f5f6f9; --edge: #d9dde6;
  --free: #1b7a4b; --paid: #b3401f; --mark: #111; --c0: #3565c4; --c1: #d98a1f; --c2: #2c9a77; --c3: #9a4fb3;
  --c4: #c4485f; --c5: #6b7280 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaf1; --soft: #a2abbd; --paper: #14171e; --card: #1d222c; --edge: #333b4a;
    --free: #5ccb95; --paid: #f08a66; --mark: #fff; --c0: #7fa6f5; --c1: #f2b45c; --c2: #62cfa9; --c3: #c98fe0;
    --c4: #f08a9c; --c5: #9aa3b2 }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px }
h1 { font-size: 26px; margin: 0 }
h2 { font-size: 18px; margin: 36px 0 8px }
h3 { font-size: 14px; margin: 0 0 4px; font-weight: 600; overflow-wrap: anywhere }
p { margin: 6px 0; max-width: 76ch }
figure { margin: 0; min-width: 0 }
ul { margin: 6px 0; padding-left: 20px }
dl { display: grid; margin: 0; grid-template-columns: auto 1fr; gap: 4px 16px }
dt { color: var(--soft) }
dd { margin: 0 }
table { border-collapse: collapse }
td, th { padding: 3px 14px 3px 0; text-align: left; border-bottom: 1px solid var(--edge); overflow-wrap: anywhere }
th { color: var(--soft); font-weight: 400; vertical-align: bottom }
.number { text-align: right; overflow-wrap: normal }
.soft { color: var(--soft) }
.grid { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)) }
.two { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)) }
.two + .two { margin-top: 14px }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 12px 14px }
.free { border-left: 4px solid var(--free) }
.paid { border-left: 4px solid var(--paid) }
.key { display: inline-block; margin-right: 14px }
.key svg { display: inline; width: 12px; height: 12px; vertical-align: -1px }
svg { width: 100%; height: auto; display: block }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
.s0 { fill: var(--c0) }
.s1 { fill: var(--c1) }
.s2 { fill: var(--c2) }
.s3 { fill: var(--c3) }
.s4 { fill: var(--c4) }
.s5 { fill: var(--c5) }
.mark { stroke: var(--mark); stroke-width: 2 }
.rule { stroke: var(--edge) }
.curve { fill: none; stroke: var(--c0); stroke-width: 2 }
.heat { fill: var(--c0); stroke: var(--edge); stroke-width: .5 }
"""

FloatArray = npt.NDArray[np.float64]

ROWS_MAX = 20_000  # of the page's table
PAIRED_COLUMNS = 32
_BINS = 32
_COLUMNS_SHOWN = 48
_CATEGORIES_SHOWN = 40
_STRONGEST = 8


def document(title: str, parts: Sequence[str]) -> str:
    """Return a whole page, without scripts or links. `title` is text, `parts` are HTML."""
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
    )
    return f"{head}<body><main>{''.join(parts)}</main></body></html>\n"


def number_table(heads: Sequence[str], lines: Sequence[tuple[Sequence[str], Sequence[float]]], *, digits: int) -> str:
    """Return a table. Each line has texts, then numbers, and as many cells as `heads`."""
    texts = len(heads) - len(lines[0][1])
    top = "".join(f"<th{_side(i >= texts)}>{escape(head)}</th>" for i, head in enumerate(heads))
    rows = (
        "".join(f"<td>{escape(name)}</td>" for name in names)
        + "".join(f"<td{_side(True)}>{value:.{digits}f}</td>" for value in values)
        for names, values in lines
    )
    return f"<table><tr>{top}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _side(number: bool) -> str:
    return ' class="number"' if number else ""


def key(series: Sequence[str]) -> str:
    """The legend: the meaning of the colours."""
    shapes = [(f'<rect class="s{i}" width="12" height="12"/>', name) for i, name in enumerate(series)]
    keys = (
        f'<span class="key"><svg viewBox="0 0 12 12">{shape}</svg> {charts.short(name, chars_max=30)}</span>'
        for shape, name in shapes
    )
    return f"<p>{''.join(keys)}</p>"


def figure(title: str, chart: str) -> str:
    """A chart with its title, which is text."""
    return f'<figure class="card"><h3>{escape(title)}</h3>{chart}</figure>'


def column_grid(schema: TableSchema, chart: Callable[[int], str]) -> str:
    """The charts of the first columns; `chart` takes a column's index."""
    columns = enumerate(schema.columns[:_COLUMNS_SHOWN])
    figures = "".join(figure(column.name, chart(j)) for j, column in columns)
    more = len(schema.columns) - _COLUMNS_SHOWN
    rest = f'<p class="soft">{more} further columns are not shown.</p>' if more > 0 else ""
    return f'<div class="grid">{figures}</div>{rest}'


def column_shares(
    table: EncodedTable, j: int, *, groups: npt.NDArray[np.int64], groups_count: int
) -> tuple[FloatArray, Sequence[str]]:
    """Shares of all rows in each (group, bar) of column `j`, `[groups_count, bars]`, and the bars' names."""
    bars, names = _bars(table.schema.columns[j], table.codes[:, j].astype(np.int64))
    counts = np.bincount(groups * len(names) + bars, minlength=groups_count * len(names))
    return counts.reshape(groups_count, -1)[:, :_CATEGORIES_SHOWN] / len(table), names[:_CATEGORIES_SHOWN]


def class_shares(table: EncodedTable) -> FloatArray:
    """Share of each class in all rows, `[classes]`."""
    shares: FloatArray = np.bincount(table.labels, minlength=table.schema.classes) / len(table)
    return shares


def _bars(column: Column, codes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Sequence[str]]:
    """The bar of each row, and the bars' names: categories, few whole numbers, or even bins."""
    if not isinstance(column, NumericColumn):
        return codes, column.categories
    span = column.maximum - column.minimum
    if column.integer and span < _BINS:
        whole = range(int(column.minimum), int(column.maximum) + 1)
        return np.rint(codes * span / STEPS).astype(np.int64), [str(number) for number in whole]
    edges = np.linspace(column.minimum, column.maximum, _BINS + 1)
    names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
    names[0], names[-1] = f"{column.minimum:.4g}", f"{column.maximum:.4g}"
    return np.minimum(codes * _BINS // STEPS, _BINS - 1), names


def paired_names(schema: TableSchema) -> list[str]:
    """The names of the columns that are compared in pairs, the label last; the order of `associations`."""
    names = [column.name for column in schema.columns[:PAIRED_COLUMNS]]
    return names + ([schema.label.name] if schema.label is not None else [])


def pairs_text(schema: TableSchema) -> str:
    """Explain the numbers of a pair."""
    note = f" of the first {PAIRED_COLUMNS} columns" if len(schema.columns) > PAIRED_COLUMNS else ""
    return (
        f"Strength of the association of two columns in the synthetic rows{note}: correlation of two numbers, Cramér's"
        " V of two categories, correlation ratio of one of each; 0 to 1."
    )


def strongest_pairs(matrix: FloatArray, names: Sequence[str]) -> str:
    """The strongest pairs of a matrix, and their numbers."""
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    strongest = sorted(pairs, key=lambda pair: -matrix[pair])[:_STRONGEST]
    lines = [((names[i], names[j]), [float(matrix[i, j])]) for i, j in strongest]
    return number_table(["", "", "Strength"], lines, digits=2)


def scores_table(scores: LabelScores | None, schema: TableSchema) -> str:
    """One line for each classifier with a number for each measure."""
    if scores is None:
        return (
            f"<p>Not enough rows: training and test need {ROWS_MIN} rows each, of two classes at least, and a column"
            " that varies.</p>"
        )
    heads = measures(schema)
    lines = [((name,), scores.values[i].tolist()) for i, name in enumerate(scores.classifiers)]
    about = f"{scores.trained_rows} rows to train on, {scores.tested_rows} to test on."
    if schema.label is not None and schema.classes == 2:
        about += f" Average precision is that of {escape(schema.label.categories[1])}."
    return f'<div class="card">{number_table(["", *heads], lines, digits=3)}</div><p class="soft">{about}</p>'
