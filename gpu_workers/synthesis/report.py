"""The page about a synthesis: what was released, what the synthetic rows look like, what it costs to ask for more.

Guarantee: made of the release, of rows drawn from it and of the public schema alone: post-processing, at no cost. One
HTML file without scripts or links; names of columns and categories are the caller's, escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from core.synthesis.associations import associations
from core.synthesis.encoding import STEPS, EncodedTable
from core.synthesis.marginals_release import MarginalsRelease
from core.synthesis.pearl_release import PearlRelease
from core.synthesis.schema import Column, NumericColumn
from gpu_workers.synthesis import report_charts as charts
from gpu_workers.synthesis.report_style import STYLE

FloatArray = npt.NDArray[np.float64]

_BINS = 32
_COLUMNS_SHOWN = 48
_PAIRED_COLUMNS = 32
_CATEGORIES_SHOWN = 40
_STRONGEST = 8


@dataclass(frozen=True)
class Facts:
    """What the page states. `rows`: n where it was public, else what the noisy counts say."""

    method: str
    name: str
    rows_are_public: bool
    rows: int
    epsilon: float
    delta: float
    noise_multiplier: float


def page(
    facts: Facts,
    release: PearlRelease | MarginalsRelease,
    drawn: EncodedTable,
    curve: Sequence[tuple[int, float]],
) -> str:
    """The page as HTML. `drawn`: synthetic rows; `curve`: the training's objective by step, empty without one."""
    parts = [
        f"<h1>Synthetic rows <em>{escape(facts.name)}</em></h1>",
        '<p class="soft">Every chart is of synthetic rows or of released numbers. No private row was read for it.</p>',
        _facts(facts, release),
        _cost(facts),
        _training(curve),
        _classes(release, drawn),
        _columns(release, drawn),
        _pairs(drawn),
        f'<p class="soft">Charts of {len(drawn)} synthetic rows, drawn for this page.</p>',
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Synthetic rows {escape(facts.name)}</title><style>{STYLE}</style></head>"
    )
    return f"{head}<body><main>{''.join(parts)}</main></body></html>\n"


def _facts(facts: Facts, release: PearlRelease | MarginalsRelease) -> str:
    schema = release.schema
    noise = release.noise if isinstance(release, MarginalsRelease) else release.counts_noise
    count = "public" if facts.rows_are_public else "protected: this is what the noisy counts add up to"
    rows = [
        ("Guarantee", f"epsilon {facts.epsilon:g}, delta {facts.delta:g}, for replacing any one record"),
        (
            "Method",
            f"<code>{escape(facts.method)}</code>, one Gaussian release, multiplier {facts.noise_multiplier:.4g}",
        ),
        ("Rows", f"{facts.rows} ({count})"),
        ("Columns", f"{len(schema.columns)}" + (f" and a label of {schema.classes} classes" if schema.label else "")),
        ("Noise of a count", f"standard deviation {noise:.3g} rows"),
    ]
    return '<dl class="card">' + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows) + "</dl>"


def _cost(facts: Facts) -> str:
    """What is free and what is not."""
    free = (
        "drawing any number of synthetic rows from the kept file",
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
        f'<ul>{_items(free)}</ul></div><div class="card paid"><h3>Reads the private rows again, and costs budget again'
        f'</h3><ul>{_items(paid)}</ul><p class="soft">{spent}</p></div></div>'
    )


def _items(texts: Sequence[str]) -> str:
    return "".join(f"<li>{text}</li>" for text in texts)


def _training(curve: Sequence[tuple[int, float]]) -> str:
    if len(curve) < 2:
        return ""
    return (
        "<h2>Training</h2><p>How far the generator is from the released numbers, squared, in units of their noise: the"
        " private table itself would lie near 1, where training ends: below, a generator follows the noise.</p>"
        f'<figure class="card">{charts.line(curve)}</figure>'
    )


def _classes(release: PearlRelease | MarginalsRelease, drawn: EncodedTable) -> str:
    label = release.schema.label
    if label is None:
        return ""
    released = np.maximum(release.classes if isinstance(release, MarginalsRelease) else release.counts, 0.0)
    released = released / released.sum() if released.sum() > 0 else released
    made = np.bincount(drawn.labels, minlength=release.schema.classes)[None, :] / len(drawn)
    chart = charts.stacked_bars(made, label.categories, series=[label.name], marks=released)
    return (
        f"<h2>Classes</h2><p>Bars: synthetic rows. Lines: the released, noisy shares.</p>"
        f'<div class="grid"><figure class="card"><h3>{escape(label.name)}</h3>{chart}</figure></div>'
    )


def _columns(release: PearlRelease | MarginalsRelease, drawn: EncodedTable) -> str:
    schema = release.schema
    coloured = schema.label is not None and schema.classes <= charts.SERIES_MAX
    series = schema.label.categories if schema.label is not None and coloured else ("all",)
    labels = drawn.labels.astype(np.int64) if coloured else np.zeros(len(drawn), dtype=np.int64)
    figures = []
    for j, column in enumerate(schema.columns[:_COLUMNS_SHOWN]):
        bars, names = _bars(column, drawn.codes[:, j].astype(np.int64))
        counts = np.bincount(labels * len(names) + bars, minlength=len(series) * len(names))
        parts = counts.reshape(len(series), -1)[:, :_CATEGORIES_SHOWN] / len(drawn)
        chart = charts.stacked_bars(parts, names, series=series, marks=None)
        figures.append(f'<figure class="card"><h3>{escape(column.name)}</h3>{chart}</figure>')
    more = len(schema.columns) - _COLUMNS_SHOWN
    rest = f'<p class="soft">{more} further columns are not shown.</p>' if more > 0 else ""
    return f'<h2>Columns</h2>{_key(series) if coloured else ""}<div class="grid">{"".join(figures)}</div>{rest}'


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


def _key(series: Sequence[str]) -> str:
    keys = (
        f'<span class="key"><svg viewBox="0 0 12 12"><rect class="s{i}" width="12" height="12"/></svg>'
        f" {charts.short(name, chars_max=30)}</span>"
        for i, name in enumerate(series)
    )
    return f"<p>{''.join(keys)}</p>"


def _pairs(drawn: EncodedTable) -> str:
    schema = drawn.schema
    names = [column.name for column in schema.columns[:_PAIRED_COLUMNS]]
    names += [schema.label.name] if schema.label is not None else []
    if len(names) < 2:
        return ""
    matrix = associations(drawn, columns=_PAIRED_COLUMNS)
    upper = [(matrix[i, j], names[i], names[j]) for i in range(len(names)) for j in range(i)]
    strongest = sorted(upper, key=lambda pair: -pair[0])[:_STRONGEST]
    lines = "".join(
        f"<tr><td>{escape(first)}</td><td>{escape(second)}</td><td>{value:.2f}</td></tr>"
        for value, first, second in strongest
    )
    note = f" of the first {_PAIRED_COLUMNS} columns" if len(schema.columns) > _PAIRED_COLUMNS else ""
    return (
        f"<h2>Pairs</h2><p>How strongly two columns go together in the synthetic rows{note}: correlation of two"
        " numbers, Cramér's V of two categories, correlation ratio of one of each; 0 to 1.</p>"
        f'<div class="two"><figure class="card">{charts.heat(matrix, names)}</figure>'
        f'<div class="card"><h3>The strongest</h3><table>{lines}</table></div></div>'
    )
