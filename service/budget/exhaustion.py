"""When a budget runs out, as an estimate from what was spent in equal intervals.

Method: a bootstrap of `PATHS` futures. Each future first draws the history anew, with replacement, which stands for not
knowing the distribution of an interval's spending. It then draws its own intervals from that, with replacement. The
band is from the 5 % to the 95 % quantile of the futures. The draws have a fixed seed, so equal histories have equal
answers.

It assumes that intervals are alike and independent. A trend or a weekly pattern is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PATHS = 400
INTERVALS_MAX = 750  # of a future
LINE_MAX = 60
QUANTILES = (0.05, 0.5, 0.95)
_SEED = 0


@dataclass(frozen=True)
class Band:
    """The 5 %, 50 % and 95 % quantiles of a number. None is beyond the last interval of a future."""

    low: float | None
    middle: float | None
    high: float | None


@dataclass(frozen=True)
class Forecast:
    """`exhausted` is in intervals from now. `line` has up to `LINE_MAX` numbers of intervals, and what will then have
    been spent in addition."""

    per_interval: Band
    exhausted: Band
    line: tuple[tuple[int, Band], ...]


def forecast(history: Sequence[float], remaining: float) -> Forecast:
    """Estimate when `remaining` is spent, if the next intervals are like those of `history`.

    The line ends where the latest future of the band is exhausted: where it has spent at least what remains. Takes
    some 10 ms. Raises ValueError for an empty history.
    """
    if not history:
        raise ValueError("a forecast needs a history")
    draws = np.random.default_rng(_SEED)
    spent = np.asarray(history, dtype=np.float64)
    redrawn = spent[draws.integers(len(spent), size=(PATHS, len(spent)))]
    chosen = draws.integers(len(spent), size=(PATHS, INTERVALS_MAX))
    paths = np.cumsum(np.take_along_axis(redrawn, chosen, axis=1), axis=1)
    reached = paths >= remaining * (1 - 1e-12)
    ends = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)
    exhausted = _band(ends)
    length = INTERVALS_MAX if exhausted.high is None else int(exhausted.high)
    shown = sorted({round(number) for number in np.linspace(1, length, min(length, LINE_MAX))})
    return Forecast(
        per_interval=_band(redrawn.mean(axis=1)),
        exhausted=exhausted,
        line=tuple((number, _band(paths[:, number - 1])) for number in shown),
    )


def _band(values: npt.NDArray[np.float64]) -> Band:
    """Quantiles that are values themselves: between a number and infinity there is no other."""
    found = np.quantile(values, QUANTILES, method="higher")
    return Band(*(float(value) if np.isfinite(value) else None for value in found))
