"""The page about a synthesis: what was released, how the synthetic rows are distributed, and what further use costs.

Guarantee: the page is derived from the release, from rows drawn from it and from the public schema alone. It is
post-processing and costs nothing.

It is one HTML file without scripts or links. Its charts are SVG, coloured by the page's style sheet and readable
without colour. Names of columns and categories come from the caller and are escaped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from core.synthesis.columns import STEPS, Column, NumericColumn
from core.synthesis.encoding import EncodedTable, associations
from core.synthesis.plan import Release
from core.synthesis.schema import TableSchema
from gpu_workers.pages import SERIES_MAX, document, figure, items, key, number_table, picture, short
from gpu_workers.synthesis.label_scores import ROWS_MIN, LabelScores, label_scores, measures, split

FloatArray = npt.NDArray[np.float64]

_WIDTH, _HEIGHT = 320, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 8, 8, 18, 22
_LABELS_MAX = 8  # under one chart


def stacked_bars(
    heights: FloatArray, names: Sequence[str], *, series: Sequence[str], marks: tuple[str, FloatArray] | None
) -> str:
    """Shares `[series, bins]` as stacked bars, one for each bin. `marks`, a name and `[bins]`: a line across each
    bar."""
    totals = heights.sum(axis=0)
    highest = max(float(totals.max()), float(marks[1].max()) if marks is not None else 0.0) or 1.0
    bins = heights.shape[1]
    step = (_WIDTH - _LEFT - _RIGHT) / bins
    plot_height = _HEIGHT - _TOP - _BOTTOM
    drawn = []
    for b in range(bins):
        x, top = _LEFT + b * step, float(_HEIGHT - _BOTTOM)
        for s in range(len(heights)):
            tall = heights[s, b] / highest * plot_height
            top -= tall
            label = escape(names[b]) + (f", {escape(series[s])}" if len(heights) > 1 else "")
            drawn.append(
                f'<rect class="s{s % SERIES_MAX}" x="{x + step * 0.08:.1f}" y="{top:.1f}" width="{step * 0.84:.1f}"'
                f' height="{tall:.1f}"><title>{label}: {heights[s, b]:.1%}</title></rect>'
            )
        if marks is not None:
            marked, share = marks[0], marks[1][b]
            y = _HEIGHT - _BOTTOM - share / highest * plot_height
            drawn.append(
                f'<line class="mark" x1="{x:.1f}" x2="{x + step:.1f}" y1="{y:.1f}" y2="{y:.1f}">'
                f"<title>{escape(names[b])}, {marked}: {share:.1%}</title></line>"
            )
    drawn += [_axis_labels(names, step), _top_label(f"{highest:.0%}")]
    return picture("".join(drawn), width=_WIDTH, height=_HEIGHT)


def line(points: Sequence[tuple[int, float]]) -> str:
    """A curve over steps, with a logarithmic vertical axis."""
    steps = [step for step, _ in points]
    heights = [math.log10(max(value, 1e-12)) for _, value in points]
    low, high = min(heights), max(heights)
    span, last = (high - low) or 1.0, max(steps)
    width, height, left = 3 * _WIDTH, int(1.4 * _HEIGHT), 56

    def at(step: int, value: float) -> str:
        x = left + step / last * (width - left - _RIGHT)
        y = _TOP + (high - value) / span * (height - _TOP - _BOTTOM)
        return f"{x:.1f},{y:.1f}"

    path = " ".join(at(step, value) for step, value in zip(steps, heights, strict=True))
    rules = []
    between = [
        whole for whole in range(math.ceil(low), math.floor(high) + 1) if low + span / 9 < whole < high - span / 9
    ]
    for exponent in (low, *between, high):
        y = at(0, exponent).split(",")[1]
        rules.append(
            f'<line class="rule" x1="{left}" x2="{width - _RIGHT}" y1="{y}" y2="{y}"/>'
            f'<text x="{left - 6}" y="{y}" dy="4" text-anchor="end">{10**exponent:.2g}</text>'
        )
    end = f'<text x="{width - _RIGHT}" y="{height - 6}" text-anchor="end">{last} steps</text>'
    return picture(f'{"".join(rules)}<polyline class="curve" points="{path}"/>{end}', width=width, height=height)


def heat(matrix: FloatArray, names: Sequence[str]) -> str:
    """A symmetric matrix of numbers in [0, 1]. Darker cells are nearer to 1; a tooltip shows each number."""
    cell, margin = max(12, min(28, 560 // max(1, len(names)))), 110
    size = margin + cell * len(names)
    drawn = []
    for i, name in enumerate(names):
        middle = margin + (i + 0.5) * cell
        drawn.append(f'<text x="{margin - 6}" y="{middle:.1f}" dy="4" text-anchor="end">{short(name)}</text>')
        drawn.append(
            f'<text transform="translate({middle:.1f},{margin - 6}) rotate(-60)">{short(name, chars_max=16)}</text>'
        )
        for j, other in enumerate(names):
            drawn.append(
                f'<rect class="heat" x="{margin + j * cell}" y="{margin + i * cell}" width="{cell - 1}"'
                f' height="{cell - 1}" fill-opacity="{matrix[i, j]:.3f}">'
                f"<title>{escape(name)} and {escape(other)}: {matrix[i, j]:.2f}</title></rect>"
            )
    return picture("".join(drawn), width=size + 24, height=size, wide=True)


def _axis_labels(names: Sequence[str], step: float) -> str:
    """All names if there are few, else the first and the last."""
    y = _HEIGHT - _BOTTOM + 14
    if len(names) > _LABELS_MAX:
        first, last = short(names[0]), short(names[-1])
        end = _WIDTH - _RIGHT
        return f'<text x="{_LEFT}" y="{y}">{first}</text><text x="{end}" y="{y}" text-anchor="end">{last}</text>'
    chars = max(3, int(step / 6.2))
    return "".join(
        f'<text x="{_LEFT + (i + 0.5) * step:.1f}" y="{y}" text-anchor="middle">{short(name, chars_max=chars)}</text>'
        for i, name in enumerate(names)
    )


def _top_label(text: str) -> str:
    return f'<text x="{_LEFT}" y="{_TOP - 6}">{text}</text>'


ROWS_MAX = 20_000  # of the page's table
PAIRED_COLUMNS = 32
_BINS = 32
_COLUMNS_SHOWN = 48
_CATEGORIES_SHOWN = 40
_STRONGEST = 8


def column_shares(
    table: EncodedTable, j: int, *, groups: npt.NDArray[np.int64], groups_count: int
) -> tuple[FloatArray, Sequence[str]]:
    """Shares of all rows in each (group, bar) of column `j`, `[groups_count, bars]`, and the bars' names."""
    bars, names = _bars(table.schema.columns[j], table.codes[:, j].astype(np.int64))
    counts = np.bincount(groups * len(names) + bars, minlength=groups_count * len(names))
    return counts.reshape(groups_count, -1)[:, :_CATEGORIES_SHOWN] / len(table), names[:_CATEGORIES_SHOWN]


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


@dataclass(frozen=True)
class Facts:
    """The facts on the page. `rows`: n if it was public, else the estimate from the noisy counts."""

    method: str
    name: str
    rows_are_public: bool
    rows: int
    epsilon: float
    delta: float
    noise_multiplier: float
    rows_per_subject: int | None = None


def whom(rows_per_subject: int | None) -> str:
    """What may be replaced under the guarantee."""
    return (
        "one record" if rows_per_subject is None else f"one subject, of which up to {rows_per_subject} records are used"
    )


def page(facts: Facts, release: Release, drawn: EncodedTable, curve: Sequence[tuple[int, float]]) -> str:
    """Return the page as HTML. `drawn`: synthetic rows. `curve`: the training's objective by step, empty without
    training."""
    sections = [
        f"<h1>Synthetic rows <em>{escape(facts.name)}</em></h1>",
        '<p class="soft">Charts show synthetic rows or released numbers. No private row was read for this page.</p>',
        _facts(facts, release),
        _cost(facts),
        _training(curve),
        _classes(release, drawn),
        _columns(release.schema, drawn),
        _pairs(drawn),
        _scores(drawn),
        f'<p class="soft">Charts of {len(drawn)} synthetic rows, drawn for this page.</p>',
    ]
    return document(f"Synthetic rows {facts.name}", sections)


def _facts(facts: Facts, release: Release) -> str:
    schema = release.schema
    count = "public" if facts.rows_are_public else "protected: estimated from the noisy counts"
    rows = [
        (
            "Guarantee",
            f"epsilon {facts.epsilon:g}, delta {facts.delta:g}, for replacing {whom(facts.rows_per_subject)}",
        ),
        (
            "Method",
            f"<code>{escape(facts.method)}</code>, as one Gaussian release of multiplier {facts.noise_multiplier:.4g}",
        ),
        ("Rows", f"{facts.rows} ({count})"),
        ("Columns", f"{len(schema.columns)}" + (f" and a label of {schema.classes} classes" if schema.label else "")),
        ("Noise of a count", f"standard deviation {release.noise:.3g} rows"),
    ]
    return '<dl class="card">' + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows) + "</dl>"


def _cost(facts: Facts) -> str:
    """List what is free and what costs budget."""
    free = (
        "drawing any number of synthetic rows from the stored file",
        "this page, any chart or statistic of synthetic rows",
        "training and testing models on synthetic rows, publishing rows, file and page",
    )
    paid = (
        "another run of the job, also with the same parameters",
        "any comparison with the private rows: a score on real rows, a plot of real against synthetic. Done outside the"
        " gateway, it is covered by no guarantee.",
    )
    spent = f"Spent on this release: epsilon {facts.epsilon:g}, delta {facts.delta:g}, once."
    return (
        '<h2>What is free, what is not</h2><div class="two"><div class="card free"><h3>Free, as often as you like</h3>'
        f'<ul>{items(free)}</ul></div><div class="card paid"><h3>Reads the private rows again, and costs budget again'
        f'</h3><ul>{items(paid)}</ul><p class="soft">{spent}</p></div></div>'
    )


def _training(curve: Sequence[tuple[int, float]]) -> str:
    if len(curve) < 2:
        return ""
    return (
        "<h2>Training</h2><p>The squared distance of the generator from the released numbers, in units of their noise."
        " The private table itself would be near 1, where training ends: below 1, a generator fits the noise.</p>"
        f'<figure class="card">{line(curve)}</figure>'
    )


def _classes(release: Release, drawn: EncodedTable) -> str:
    label = release.schema.label
    if label is None:
        return ""
    released = np.maximum(release.classes, 0.0)
    released = released / released.sum() if released.sum() > 0 else released
    made = np.bincount(drawn.labels, minlength=drawn.schema.classes)[None, :] / len(drawn)
    chart = stacked_bars(made, label.categories, series=[label.name], marks=("released", released))
    return (
        f"<h2>Classes</h2><p>Bars: synthetic rows. Lines: the released, noisy shares.</p>"
        f'<div class="grid">{figure(label.name, chart)}</div>'
    )


def _columns(schema: TableSchema, drawn: EncodedTable) -> str:
    coloured = schema.label is not None and schema.classes <= SERIES_MAX
    series = schema.label.categories if schema.label is not None and coloured else ("all",)
    groups = drawn.labels.astype(np.int64) if coloured else np.zeros(len(drawn), dtype=np.int64)

    def chart(j: int) -> str:
        shares, names = column_shares(drawn, j, groups=groups, groups_count=len(series))
        return stacked_bars(shares, names, series=series, marks=None)

    figures = "".join(figure(column.name, chart(j)) for j, column in enumerate(schema.columns[:_COLUMNS_SHOWN]))
    more = len(schema.columns) - _COLUMNS_SHOWN
    rest = f'<p class="soft">{more} further columns are not shown.</p>' if more > 0 else ""
    return f"<h2>Columns</h2>{key(series) if coloured else ''}" + f'<div class="grid">{figures}</div>{rest}'


def _pairs(drawn: EncodedTable) -> str:
    columns, label = drawn.schema.columns, drawn.schema.label
    names = [column.name for column in columns[:PAIRED_COLUMNS]] + ([] if label is None else [label.name])
    if len(names) < 2:
        return ""
    matrix = associations(drawn, columns=PAIRED_COLUMNS)
    note = f" of the first {PAIRED_COLUMNS} columns" if len(columns) > PAIRED_COLUMNS else ""
    return (
        f"<h2>Pairs</h2><p>Strength of the association of two columns in the synthetic rows{note}: correlation of two"
        " numbers, Cramér's V of two categories, correlation ratio of one of each; 0 to 1.</p>"
        f'<div class="two"><figure class="card">{heat(matrix, names)}</figure>'
        f'<div class="card"><h3>The strongest</h3>{strongest_pairs(matrix, names)}</div></div>'
    )


def _scores(drawn: EncodedTable) -> str:
    if drawn.schema.label is None:
        return ""
    train, test = split(drawn)
    return (
        "<h2>Classifiers trained on synthetic rows</h2><p>Tested on other synthetic rows of the same release. This"
        " shows how well the columns predict the label in the synthetic rows; it does not measure how these"
        " classifiers perform on real rows. It is free: no private row is read for it.</p>"
        f"{scores_table(label_scores(train, test), drawn.schema)}"
    )
