"""The forecast of one account: the history of its spending in equal intervals, and when its budget runs out.

Method: a bootstrap of `PATHS` futures. Each future first draws the history anew, with replacement, which stands for not
knowing the distribution of an interval's spending. It then draws its own intervals from that, with replacement. The
band is from the 5 % to the 95 % quantile of the futures. The draws have a fixed seed, so equal histories have equal
answers. It assumes that intervals are alike and independent. A trend or a weekly pattern is not in it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from core.amounts import NANO
from core.ledger.records import AccountState
from core.ledger.transitions import Ledger
from core.reports.series import DAY_S, LedgerSeries
from service.http.answers import doc

HOUR_S = 3600
ROWS_MAX = 20_000  # charges that an answer reads from a subject's journal: a release has about four
# Intervals of a history: their length in seconds, and the smallest and the largest number of whole ones.
_HISTORIES = ((DAY_S, 7, 28), (HOUR_S, 24, 168))
_METHOD = (
    "An estimate: a bootstrap of the spending in whole intervals, as if the next ones were like these. "
    "The band is from the 5 % to the 95 % quantile."
)

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
    exhausted = _quantiles(ends)
    length = INTERVALS_MAX if exhausted.high is None else int(exhausted.high)
    shown = sorted({round(number) for number in np.linspace(1, length, min(length, LINE_MAX))})
    return Forecast(
        per_interval=_quantiles(redrawn.mean(axis=1)),
        exhausted=exhausted,
        line=tuple((number, _quantiles(paths[:, number - 1])) for number in shown),
    )


def _quantiles(values: npt.NDArray[np.float64]) -> Band:
    """Quantiles that are values themselves: between a number and infinity there is no other."""
    found = np.quantile(values, QUANTILES, method="higher")
    return Band(*(float(value) if np.isfinite(value) else None for value in found))


@dataclass(frozen=True)
class _History:
    """Epsilon spent in whole intervals up to `to_ms`, oldest first; none if there are too few intervals."""

    step_s: int
    to_ms: int
    spent: Sequence[float]


class ForecastSpent(TypedDict):
    """Where the account is."""

    epsilon: Annotated[float, doc("The sum of epsilon that was spent or is held.")]
    exhausted_at: Annotated[float | None, doc("The sum at which nothing more is admitted; null if nothing was spent.")]


class ForecastHistory(TypedDict):
    """The whole intervals from which the forecast is made."""

    from_ms: Annotated[int, doc("Their start, in milliseconds since the epoch.")]
    to_ms: Annotated[int, doc("Their end, exclusive.")]
    step_s: Annotated[int, doc("The seconds of an interval.")]
    intervals: Annotated[int, doc("How many intervals.")]


class ForecastBand(TypedDict):
    """The 5 %, 50 % and 95 % quantiles of an epsilon; null beyond the last interval of the forecast."""

    low: float | None
    middle: float | None
    high: float | None


class ForecastMoments(TypedDict):
    """Three times, in milliseconds since the epoch; null beyond the last interval of the forecast."""

    earliest: Annotated[int | None, doc("By the 5 % of futures that spend most.")]
    middle: Annotated[int | None, doc("By half of the futures.")]
    latest: Annotated[int | None, doc("By 95 % of the futures.")]


class ForecastPoint(ForecastBand):
    """What will have been spent at one time."""

    at_ms: Annotated[int | None, doc("The time, in milliseconds since the epoch.")]


class BudgetForecast(TypedDict):
    """When an account runs out, as an estimate."""

    account: Annotated[str, doc("The id of the account.")]
    kind: Annotated[str, doc("Always `estimate`.")]
    method: Annotated[str, doc("How it is estimated, in a sentence.")]
    at_ms: Annotated[int, doc("The time of the estimate, in milliseconds since the epoch.")]
    spent: Annotated[ForecastSpent, doc("Where the account is.")]
    history: Annotated[ForecastHistory, doc("What the estimate is made from.")]
    reason: Annotated[str | None, doc("Why there is no forecast, as a word; null if there is one.")]
    per_interval: Annotated[ForecastBand | None, doc("The epsilon of an interval; null without a forecast.")]
    exhausted_ms: Annotated[ForecastMoments | None, doc("When the account runs out; null without a forecast.")]
    line: Annotated[list[ForecastPoint], doc("The sums to come, at most 60; empty without a forecast.")]


async def forecast_of(
    state: AccountState, tenant: str, ledger: Ledger, series: LedgerSeries, *, now_ms: int
) -> BudgetForecast:
    """The forecast of one account at `now_ms`. Reads about ROWS_MAX charges of a subject's journal."""
    history = await _history(state, tenant, ledger, series, now_ms)
    capacity = _capacity(state)
    spent = (state.committed.epsilon_nano + state.reserved.epsilon_nano) / NANO
    answer: BudgetForecast = {
        "account": state.account,
        "kind": "estimate",
        "method": _METHOD,
        "at_ms": now_ms,
        "spent": {"epsilon": spent, "exhausted_at": capacity},
        "history": {
            "from_ms": history.to_ms - len(history.spent) * history.step_s * 1000,
            "to_ms": history.to_ms,
            "step_s": history.step_s,
            "intervals": len(history.spent),
        },
        "reason": _reason(state, history),
        "per_interval": None,
        "exhausted_ms": None,
        "line": [],
    }
    if answer["reason"] is None and capacity is not None:
        found = await asyncio.to_thread(forecast, history.spent, capacity - spent)
        _add_forecast(answer, found, history, spent)
    return answer


def _add_forecast(answer: BudgetForecast, found: Forecast, history: _History, spent: float) -> None:
    step_ms, now_ms = history.step_s * 1000, answer["at_ms"]

    def moment(intervals: float | None) -> int | None:
        return None if intervals is None else now_ms + int(intervals * step_ms)

    def total(more: float | None) -> float | None:
        return None if more is None else spent + more

    answer["per_interval"] = _band(found.per_interval)
    answer["exhausted_ms"] = {
        "earliest": moment(found.exhausted.low),
        "middle": moment(found.exhausted.middle),
        "latest": moment(found.exhausted.high),
    }
    answer["line"] = [
        {"at_ms": moment(number), "low": total(band.low), "middle": total(band.middle), "high": total(band.high)}
        for number, band in found.line
    ]


def _band(band: Band) -> ForecastBand:
    return {"low": band.low, "middle": band.middle, "high": band.high}


def _reason(state: AccountState, history: _History) -> str | None:
    """Why there is no forecast, if there is none."""
    if state.remaining.epsilon_nano == 0:
        return "exhausted"
    if not history.spent:
        return "too-little-history"
    return None if any(history.spent) else "nothing-spent"


def _capacity(state: AccountState) -> float | None:
    """The sum of epsilon at which the account is exhausted, if releases are mixed as before; None if nothing was spent.

    The sums of all arms then grow by the same factor, so the arm that has the most left now is the last one.
    """
    total = state.committed.epsilon_nano + state.reserved.epsilon_nano
    share = state.used_share
    return total / NANO / share if total and share else None


async def _history(state: AccountState, tenant: str, ledger: Ledger, series: LedgerSeries, now_ms: int) -> _History:
    for step_s, least, most in _HISTORIES:
        to_ms = now_ms // (step_s * 1000) * (step_s * 1000)
        from_ms = to_ms - most * step_s * 1000
        if state.subject_hash is None:
            sums = await series.spent(
                tenant, state.unit, step_s=step_s, first_ms=from_ms - step_s * 1000, stop_ms=to_ms
            )
            totals = [point.committed_epsilon_nano for point in sums]
            spent = [(after - before) / NANO for before, after in pairwise(totals)]
            started = bool(totals[0])
        else:
            first = await ledger.first_entry_at(tenant, from_ms)
            found = await ledger.subject_history(tenant, state, first=first, rows_max=ROWS_MAX)
            spent = [0.0] * most
            for one in found.releases:
                if from_ms <= one.entry.at_ms < to_ms:
                    spent[(one.entry.at_ms - from_ms) // (step_s * 1000)] += one.amount.epsilon_nano / NANO
            started = state.committed.epsilon_nano > sum(one.amount.epsilon_nano for one in found.releases)
            if not found.complete:
                continue
        if not started:  # the interval of the first release is not whole: it began before that
            first = next((index for index, value in enumerate(spent) if value), most)
            spent = spent[first + 1 :]
        if len(spent) >= least:
            return _History(step_s, to_ms, spent)
    return _History(HOUR_S, now_ms // (HOUR_S * 1000) * (HOUR_S * 1000), [])
