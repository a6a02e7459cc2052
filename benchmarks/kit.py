"""What benchmarks share: arguments, a gateway of their own, real documents, quantiles, tables and plots."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gateway_kit import Gateway

ROOT = Path(__file__).parents[1]
CACHE = Path(tempfile.gettempdir()) / "privacy-gateway-embeddings"


def arguments(description: str | None, *, needs_data: bool = False, **options: Any) -> argparse.Namespace:
    """Parse the command line.

    Each option has a default, or a pair of a default and a help text. The default `False` makes a switch, a list takes
    several values, an empty one a value each time it is given, and a type such as `Path` stands for no default.
    `needs_data` adds the required `--data`.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if needs_data:
        parser.add_argument("--data", type=Path, required=True, help="folder of the evaluation data")
    for name, option in options.items():
        default, text = option if isinstance(option, tuple) else (option, None)
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true", help=text)
        elif isinstance(default, type):
            parser.add_argument(flag, type=default, help=text)
        elif default == []:
            parser.add_argument(flag, action="append", default=default, help=text)
        elif isinstance(default, list):
            parser.add_argument(flag, nargs="+", type=type(default[0]), default=default, help=text)
        else:
            parser.add_argument(flag, type=type(default), default=default, help=text)
    return parser.parse_args()


@contextmanager
def running(settings: Mapping[str, str] | None = None, *, directory: Path | None = None) -> Iterator[Gateway]:
    """A gateway with its own Redis and workers, on its defaults and these settings, until the block ends."""
    from gateway_kit import Gateway

    with tempfile.TemporaryDirectory(dir=directory) as folder:
        gateway = Gateway(Path(folder) / "data", dict(settings or {}))
        try:
            yield gateway
        finally:
            gateway.stop()


def machine() -> str:
    """The processor, its load, the version of Python, and the date."""
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return f"{platform.machine()}, {load}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"


def head(*cells: str) -> None:
    """Print the head of a table in Markdown."""
    print(f"| {' | '.join(cells)} |\n|{' --- |' * len(cells)}", flush=True)


def row(*cells: object) -> None:
    """Print a row of a table in Markdown."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_turn(works: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Seconds of each work in each round. The works take turns; a first round is not counted."""
    times = [[seconds_of(work) for work in works] for _ in range(1 + rounds)]
    return [list(own) for own in zip(*times[1:], strict=True)]


def reviews(data: Path, count: int) -> list[list[str]]:
    """Reviews of IMDB as sentences, segmented as the gateway segments them, of 8 to 40 sentences."""
    from core.text.segment import sentences

    found: list[list[str]] = []
    with gzip.open(data / "imdb/test.jsonl.gz", "rt") as lines:
        for line in lines:
            units = sentences(json.loads(line)["text"].replace("<br />", " "))
            if 8 <= len(units) <= 40:
                found.append(units)
            if len(found) == count:
                break
    return found


@dataclass(frozen=True)
class Cell:
    mean: float
    sd: float | None = None  # None: nothing random, or one trial

    @classmethod
    def of(cls, results: Sequence[float], *, random: bool = True) -> Cell:
        return cls(float(np.mean(results)), float(np.std(results)) if random and len(results) > 1 else None)

    def __str__(self) -> str:
        shown = f"{self.mean:.3f}"
        return shown if self.sd is None else f"{shown} ± {self.sd:.3f}"


@dataclass(frozen=True)
class Row:
    about: str
    cells: list[Cell]


@dataclass
class Table:
    """Rows by name, in order. `columns`: bare values of the columns, which have titles of `what` and the value.
    `about`: the title of what each row says of itself."""

    title: str
    columns: Sequence[float]
    about: str = "protects"
    what: str = "eps"
    rows: dict[str, Row] = field(default_factory=dict)

    def show(self) -> None:
        print()
        head(self.title, self.about, *(f"{self.what} {column}" for column in self.columns))
        for name, each in self.rows.items():
            row(name, each.about, *each.cells)


def draw(
    tables: Mapping[str, Table],
    path: Path,
    styles: Mapping[str, str],
    *,
    xlabel: str,
    ylabel: str = "",
    log: bool = False,
) -> None:
    """One SVG, a pane a table: mean and one standard deviation over the trials. `styles`: colour and line by row."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": path.stem, "svg.fonttype": "none"})
    from matplotlib import pyplot

    across = 2 if len(tables) == 4 else min(3, len(tables))
    down = -(-len(tables) // across)
    figure, panes = pyplot.subplots(down, across, figsize=(3.6 * across, 2.9 * down + 0.6), squeeze=False)
    for pane, (title, table) in zip(panes.flat, tables.items(), strict=False):
        places = range(len(table.columns))
        for name, style in styles.items():
            if name in table.rows:
                colour, line = style.split()
                cells = table.rows[name].cells
                means, spread = [cell.mean for cell in cells], [cell.sd or 0 for cell in cells]
                pane.errorbar(places, means, spread, fmt=line, color=colour, label=name, markersize=3, linewidth=1.2)
        pane.set(title=title, xlabel=xlabel, xticks=places, xticklabels=[str(column) for column in table.columns])
        if log:
            pane.set_yscale("log")
    panes[0][0].set_ylabel(ylabel)
    handles, labels = panes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, loc="outside lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.45 / (2.9 * down), 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
