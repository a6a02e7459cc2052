"""The curves: macro-F1 against epsilon and against the number of sentences, one pane a corpus."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from benchmarks.sentdp.methods import GENERAL, NON_PRIVATE, OWN
from benchmarks.sentdp.table import Cell, Table

COLOURS = {
    "sentence_codes": "#e0559a",
    "clipped_cosine": "#1f5fa8",
    "deep_candidate": "#c0392b",
    "truncation": "#8e6bbf",
    "mean_laplace": "#d08c1d",
    "word-level metric DP": "#2e8b57",
    "document_selection": "#5d6d7e",
}
FLAT = {NON_PRIVATE: "black", f"random candidate, {GENERAL}": "#999999"}
STYLES = {"": "o-", f", {OWN}": "o-", f", {GENERAL}": "s:"}  # how a row's name goes on after the mechanism's


def draw(tables: dict[str, Table], path: Path, *, xlabel: str) -> None:
    """One SVG: mean and one standard deviation over the trials."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "sentdp", "svg.fonttype": "none"})
    from matplotlib import pyplot

    figure, panes = pyplot.subplots(1, len(tables), figsize=(9.5, 4.2), squeeze=False)
    for pane, (title, table) in zip(panes[0], tables.items(), strict=True):
        places = range(len(table.columns))
        for name, (end, style) in product(COLOURS, STYLES.items()):
            if name + end in table.rows:
                colour = COLOURS[name]
                means, below, above = _envelope(table.rows[name + end].cells)
                pane.plot(places, means, style, markersize=3, color=colour, label=name + end, linewidth=1.3)
                pane.fill_between(places, below, above, color=colour, alpha=0.2, linewidth=0)
        for name, colour in FLAT.items():
            cells = table.rows[name].cells
            pane.plot(places, [cell.mean for cell in cells], "--", color=colour, linewidth=1, label=name)
        pane.set(xlabel=xlabel, title=title, ylim=(0, 1), xticks=places)
        pane.set_xticklabels([str(column) for column in table.columns])
    panes[0][0].set_ylabel("macro-F1")
    handles, labels = panes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, loc="outside lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.14, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _envelope(cells: list[Cell]) -> tuple[list[float], list[float], list[float]]:
    means = [cell.mean for cell in cells]
    return means, [cell.mean - (cell.sd or 0) for cell in cells], [cell.mean + (cell.sd or 0) for cell in cells]
