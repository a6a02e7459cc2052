"""Charts of the report on a synthesis: SVG, coloured by the page's style sheet, readable without colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_WIDTH, _HEIGHT = 320, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 8, 8, 18, 22
_LABELS_MAX = 8  # under one chart
_CHARS_MAX = 14
SERIES_MAX = 6  # colours of the style sheet


def short(text: str, *, chars_max: int = _CHARS_MAX) -> str:
    """Shorten to at most `chars_max` characters and escape for HTML."""
    return escape(text if len(text) <= chars_max else text[: chars_max - 1] + "…")


def stacked_bars(
    parts: FloatArray, names: Sequence[str], *, series: Sequence[str], marks: tuple[str, FloatArray] | None
) -> str:
    """Shares `[series, bins]` as stacked bars, one for each bin. `marks`, a name and `[bins]`: a line across each
    bar."""
    totals = parts.sum(axis=0)
    highest = max(float(totals.max()), float(marks[1].max()) if marks is not None else 0.0) or 1.0
    bins = parts.shape[1]
    step = (_WIDTH - _LEFT - _RIGHT) / bins
    plot_height = _HEIGHT - _TOP - _BOTTOM
    drawn = []
    for b in range(bins):
        x, top = _LEFT + b * step, float(_HEIGHT - _BOTTOM)
        for s in range(len(parts)):
            tall = parts[s, b] / highest * plot_height
            top -= tall
            label = escape(names[b]) + (f", {escape(series[s])}" if len(parts) > 1 else "")
            drawn.append(
                f'<rect class="s{s % SERIES_MAX}" x="{x + step * 0.08:.1f}" y="{top:.1f}" width="{step * 0.84:.1f}"'
                f' height="{tall:.1f}"><title>{label}: {parts[s, b]:.1%}</title></rect>'
            )
        if marks is not None:
            marked, share = marks[0], marks[1][b]
            y = _HEIGHT - _BOTTOM - share / highest * plot_height
            drawn.append(
                f'<line class="mark" x1="{x:.1f}" x2="{x + step:.1f}" y1="{y:.1f}" y2="{y:.1f}">'
                f"<title>{escape(names[b])}, {marked}: {share:.1%}</title></line>"
            )
    return _chart("".join(drawn) + _axis_labels(names, step) + _top_label(f"{highest:.0%}"))


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
    return _chart(f'{"".join(rules)}<polyline class="curve" points="{path}"/>{end}', width=width, height=height)


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
    return _chart("".join(drawn), width=size + 24, height=size, wide=True)


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


def _chart(drawn: str, *, width: int = _WIDTH, height: int = _HEIGHT, wide: bool = False) -> str:
    style = f' style="max-width:{width}px"' if wide else ""
    return f'<svg viewBox="0 0 {width} {height}" role="img"{style}>{drawn}</svg>'
