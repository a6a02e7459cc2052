"""The forecast of one account: the history of its spending, and what the bootstrap makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from core.amounts import NANO
from core.ledger.journal_fold import DAY_S
from core.ledger.ledger import Ledger
from core.ledger.records import AccountState
from core.ledger.series import LedgerSeries
from service.budget.exhaustion import Band, Forecast, forecast

HOUR_S = 3600
ROWS_MAX = 20_000  # charges that an answer reads from a subject's journal: a release has about four
# Intervals of a history: their length in seconds, and the smallest and the largest number of whole ones.
_HISTORIES = ((DAY_S, 7, 28), (HOUR_S, 24, 168))
_METHOD = (
    "An estimate: a bootstrap of the spending in whole intervals, as if the next ones were like these. "
    "The band is from the 5 % to the 95 % quantile."
)


@dataclass(frozen=True)
class _History:
    """Epsilon spent in whole intervals up to `to_ms`, oldest first; none if there are too few intervals."""

    step_s: int
    to_ms: int
    spent: Sequence[float]


async def forecast_of(
    state: AccountState, tenant: str, ledger: Ledger, series: LedgerSeries, *, now_ms: int
) -> dict[str, Any]:
    """The forecast of one account at `now_ms`. Reads about ROWS_MAX charges of a subject's journal."""
    history = await _history(state, tenant, ledger, series, now_ms)
    capacity = _capacity(state)
    spent = (state.committed.epsilon_nano + state.reserved.epsilon_nano) / NANO
    answer: dict[str, Any] = {
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
        answer |= _forecast_block(found, history, now_ms, spent)
    return answer


def _forecast_block(found: Forecast, history: _History, now_ms: int, spent: float) -> dict[str, Any]:
    step_ms = history.step_s * 1000

    def moment(intervals: float | None) -> int | None:
        return None if intervals is None else now_ms + int(intervals * step_ms)

    def total(more: float | None) -> float | None:
        return None if more is None else spent + more

    return {
        "per_interval": _band(found.per_interval),
        "exhausted_ms": {
            "earliest": moment(found.exhausted.low),
            "middle": moment(found.exhausted.middle),
            "latest": moment(found.exhausted.high),
        },
        "line": [
            {"at_ms": moment(number), "low": total(band.low), "middle": total(band.middle), "high": total(band.high)}
            for number, band in found.line
        ],
    }


def _band(band: Band) -> dict[str, float | None]:
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
