"""The curves: test accuracy and distance error against the worst-case epsilon."""

from __future__ import annotations

from pathlib import Path

from benchmarks.privemb.methods import M1, M2_STRICT, paper
from benchmarks.sentdp.table import Table

COLOURS = {
    M1: "#5d6d7e",
    paper(0.9): "#c0392b",
    M2_STRICT: "#d08c1d",
    "M2 strict, pca": "#8e6bbf",
    "privunit": "#2e8b57",
    "privunit, pca": "#1f5fa8",
    "codebook, trained (pca)": "#e0559a",
    "non-private": "black",
}


def draw(tables: dict[str, Table], path: Path, *, log: bool = False) -> None:
    """One SVG, a pane a table: mean and one standard deviation over the trials."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "privemb", "svg.fonttype": "none"})
    from matplotlib import pyplot

    across = min(3, len(tables))
    down = -(-len(tables) // across)
    figure, panes = pyplot.subplots(down, across, figsize=(3.6 * across, 2.9 * down + 0.6), squeeze=False)
    for pane, (title, table) in zip(panes.flat, tables.items(), strict=True):
        places = range(len(table.columns))
        for name, colour in COLOURS.items():
            if name not in table.rows:
                continue
            cells = table.rows[name].cells
            means, spread = [cell.mean for cell in cells], [cell.sd or 0 for cell in cells]
            style = "--" if name == "non-private" else "o-"
            pane.errorbar(places, means, spread, fmt=style, color=colour, label=name, markersize=3, linewidth=1.2)
        pane.set(title=title, xlabel="worst-case epsilon", xticks=places, xticklabels=[str(c) for c in table.columns])
        if log:
            pane.set_yscale("log")
    handles, labels = panes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, loc="outside lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.3 / (2.9 * down), 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
