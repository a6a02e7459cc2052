"""A page that compares real rows with synthetic ones, for the owner of a private table, on a machine that holds it.

No guarantee: the page is computed from the private rows, without noise, and says so at its top. No job produces it.
"""

from __future__ import annotations

import math
from html import escape

import numpy as np

from core.synthesis.associations import associations
from core.synthesis.encoding import EncodedTable
from core.synthesis.schema import TableSchema
from gpu_workers.synthesis import report_charts as charts
from gpu_workers.synthesis.artifact import RowSource
from gpu_workers.synthesis.label_scores import label_scores, some_rows, split
from gpu_workers.synthesis.report_parts import (
    PAIRED_COLUMNS,
    ROWS_MAX,
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

_BARS, _MARKS = "synthetic", "real"


def comparison_page(name: str, real: EncodedTable, source: RowSource, *, noise_multiplier: float) -> str:
    """Return the page as HTML. `source` draws the synthetic rows. `noise_multiplier` is that of its release."""
    rows = len(real)
    real = some_rows(real, ROWS_MAX)
    synthetic = source.sample(len(real))
    counted = f"{len(real)} real rows" + (f", a random sample of {rows}" if rows > len(real) else "")
    parts = [
        '<p class="card private">Private: made from your real rows. Not covered by the guarantee. Do not publish.</p>',
        f"<h1>Real and synthetic rows <em>{escape(name)}</em></h1>",
        f'<p class="soft">{counted}, and as many synthetic rows, drawn for this page. The command computed it on this'
        " machine and did not send it anywhere.</p>",
        _columns(real, synthetic),
        _pairs(real, synthetic),
        _scores(real, synthetic, noise_multiplier),
    ]
    return document(f"Private: real and synthetic rows {name}", parts)


def seen_row_gain(noise_multiplier: float) -> float:
    """By how much the presence of a row in the table can raise the probability of any event that depends on the
    release.

    This is the total variation distance of two Gaussians whose means differ by 1 / `noise_multiplier` standard
    deviations, which dominate the release on neighbouring tables (Dong, Roth and Su 2022, corollary 1).
    """
    return math.erf(1 / (2 * math.sqrt(2) * noise_multiplier))


def _columns(real: EncodedTable, synthetic: EncodedTable) -> str:
    schema = real.schema
    together = np.zeros(len(real), dtype=np.int64)

    def chart(j: int) -> str:
        bars, names = column_shares(synthetic, j, groups=together, groups_count=1)
        marks, _ = column_shares(real, j, groups=together, groups_count=1)
        return charts.stacked_bars(bars, names, series=[_BARS], marks=(_MARKS, marks[0]))

    return f"<h2>Columns</h2>{key([_BARS], marks=_MARKS)}{column_grid(schema, chart, before=_label(real, synthetic))}"


def _label(real: EncodedTable, synthetic: EncodedTable) -> str:
    label = real.schema.label
    if label is None:
        return ""
    chart = charts.stacked_bars(
        class_shares(synthetic)[None, :], label.categories, series=[_BARS], marks=(_MARKS, class_shares(real))
    )
    return figure(f"{label.name}, the label", chart)


def _pairs(real: EncodedTable, synthetic: EncodedTable) -> str:
    names = paired_names(real.schema)
    if len(names) < 2:
        return ""
    matrices = [associations(table, columns=PAIRED_COLUMNS) for table in (real, synthetic)]
    strongest = strongest_pairs(matrices, names, heads=["Real", "Synthetic"])
    return (
        f"<h2>Pairs</h2><p>{pairs_text('real and in synthetic rows', real.schema)}</p>"
        f"{_heats(real.schema, matrices, names)}"
        f'<div class="two"><div class="card"><h3>The strongest pairs of the real rows</h3>{strongest}</div></div>'
    )


def _heats(schema: TableSchema, matrices: list[charts.FloatArray], names: list[str]) -> str:
    """Empty for a table of many columns, such as embeddings: a part of them says little."""
    if len(schema.columns) > PAIRED_COLUMNS:
        return ""
    titles = ("Real", "Synthetic")
    figures = (figure(title, charts.heat(matrix, names)) for title, matrix in zip(titles, matrices, strict=True))
    return f'<div class="two">{"".join(figures)}</div>'


def _scores(real: EncodedTable, synthetic: EncodedTable, noise_multiplier: float) -> str:
    if real.schema.label is None:
        return ""
    train, test = split(real)
    found = label_scores([train, synthetic], test)
    return (
        "<h2>Classifiers</h2><p>Trained on real rows, and on as many synthetic ones; both tested on the same real rows,"
        " which were not used for training on real rows. <b>The release used all rows, including these</b>: they were"
        " not held out. The guarantee bounds the advantage of the synthetic side: the probability of a right answer"
        f" about a row is at most {seen_row_gain(noise_multiplier):.3f} higher because the row is in the table.</p>"
        f"{scores_table(found, real.schema, trainings=(', trained on real', ', trained on synthetic'))}"
    )
