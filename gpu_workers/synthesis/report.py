"""The page about a synthesis: what was released, how the synthetic rows are distributed, and what further use costs.

Guarantee: the page is derived from the release, from rows drawn from it and from the public schema alone. It is
post-processing and costs nothing. It is one HTML file without scripts or links. Names of columns and categories come
from the caller and are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from core.synthesis.encoding import EncodedTable, associations
from core.synthesis.marginals_release import MarginalsRelease
from core.synthesis.pearl_release import PearlRelease
from core.synthesis.schema import TableSchema
from gpu_workers.synthesis import report_charts as charts
from gpu_workers.synthesis.label_scores import label_scores, split
from gpu_workers.synthesis.report_parts import (
    PAIRED_COLUMNS,
    class_shares,
    column_grid,
    column_shares,
    document,
    figure,
    key,
    paired_names,
    pairs_text,
    scores_table,
    strongest_pairs,
)


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


def page(
    facts: Facts,
    release: PearlRelease | MarginalsRelease,
    drawn: EncodedTable,
    curve: Sequence[tuple[int, float]],
) -> str:
    """Return the page as HTML. `drawn`: synthetic rows. `curve`: the training's objective by step, empty without
    training."""
    parts = [
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
    return document(f"Synthetic rows {facts.name}", parts)


def _facts(facts: Facts, release: PearlRelease | MarginalsRelease) -> str:
    schema = release.schema
    noise = release.noise if isinstance(release, MarginalsRelease) else release.counts_noise
    count = "public" if facts.rows_are_public else "protected: estimated from the noisy counts"
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
        f'<ul>{_items(free)}</ul></div><div class="card paid"><h3>Reads the private rows again, and costs budget again'
        f'</h3><ul>{_items(paid)}</ul><p class="soft">{spent}</p></div></div>'
    )


def _items(texts: Sequence[str]) -> str:
    return "".join(f"<li>{text}</li>" for text in texts)


def _training(curve: Sequence[tuple[int, float]]) -> str:
    if len(curve) < 2:
        return ""
    return (
        "<h2>Training</h2><p>The squared distance of the generator from the released numbers, in units of their noise."
        " The private table itself would be near 1, where training ends: below 1, a generator fits the noise.</p>"
        f'<figure class="card">{charts.line(curve)}</figure>'
    )


def _classes(release: PearlRelease | MarginalsRelease, drawn: EncodedTable) -> str:
    label = release.schema.label
    if label is None:
        return ""
    released = np.maximum(release.classes if isinstance(release, MarginalsRelease) else release.counts, 0.0)
    released = released / released.sum() if released.sum() > 0 else released
    made = class_shares(drawn)[None, :]
    chart = charts.stacked_bars(made, label.categories, series=[label.name], marks=("released", released))
    return (
        f"<h2>Classes</h2><p>Bars: synthetic rows. Lines: the released, noisy shares.</p>"
        f'<div class="grid">{figure(label.name, chart)}</div>'
    )


def _columns(schema: TableSchema, drawn: EncodedTable) -> str:
    coloured = schema.label is not None and schema.classes <= charts.SERIES_MAX
    series = schema.label.categories if schema.label is not None and coloured else ("all",)
    groups = drawn.labels.astype(np.int64) if coloured else np.zeros(len(drawn), dtype=np.int64)

    def chart(j: int) -> str:
        shares, names = column_shares(drawn, j, groups=groups, groups_count=len(series))
        return charts.stacked_bars(shares, names, series=series, marks=None)

    return f"<h2>Columns</h2>{key(series) if coloured else ''}{column_grid(schema, chart)}"


def _pairs(drawn: EncodedTable) -> str:
    names = paired_names(drawn.schema)
    if len(names) < 2:
        return ""
    matrix = associations(drawn, columns=PAIRED_COLUMNS)
    return (
        f"<h2>Pairs</h2><p>{pairs_text(drawn.schema)}</p>"
        f'<div class="two"><figure class="card">{charts.heat(matrix, names)}</figure>'
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
