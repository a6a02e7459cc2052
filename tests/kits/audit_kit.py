"""What the black-box privacy audits share: how many runs, and what their hits prove.

Every bound is Clopper and Pearson's, with `ERROR_RATE` / 2 on either side: it is true with probability
1 - ERROR_RATE, provided that the event was fixed before the runs were drawn.
"""

import math
import os

from scipy import stats

RUNS = int(os.environ.get("AUDIT_RUNS", "100000"))
ERROR_RATE = 1e-6


def probability_bounds(often: int, seldom: int, runs: int, runs_of_neighbour: int | None = None) -> tuple[float, float]:
    """A lower bound on the probability of an event with `often` hits, and an upper bound on that with `seldom`."""
    others = runs if runs_of_neighbour is None else runs_of_neighbour
    low = float(stats.beta.ppf(ERROR_RATE / 2, often, runs - often + 1)) if often else 0.0
    high = float(stats.beta.ppf(1 - ERROR_RATE / 2, seldom + 1, others - seldom)) if seldom < others else 1.0
    return low, high


def epsilon_bound(
    often: int, seldom: int, runs: int, *, runs_of_neighbour: int | None = None, delta: float = 0.0
) -> float:
    """A lower bound on ln((P[event | document] - delta) / P[event | neighbour]).

    `often` and `seldom` are the hits of one event in `runs` runs on either side, or `runs_of_neighbour` on the other.
    """
    low, high = probability_bounds(often, seldom, runs, runs_of_neighbour)
    return math.log((low - delta) / high) if low > delta else -math.inf


def mu_bound(often: int, seldom: int, runs: int) -> float:
    """A lower bound on mu for a release that is mu-GDP (Dong, Roth and Su 2022), from the hits of one event."""
    low, high = probability_bounds(often, seldom, runs)
    return float(stats.norm.ppf(low) - stats.norm.ppf(high))


def one_run_bound(canaries: int, guesses: int, right: int, *, delta: float) -> float:
    """A lower bound on epsilon from one run: of `canaries`, each in or out by a fair coin, `guesses` were guessed.

    True with probability 1 - ERROR_RATE for every attacker, whatever the canaries have to do with each other.
    Source: Steinke, Nasr and Jagielski 2023, Theorem 5.2.
    """
    low, high = 0.0, 1.0
    if _one_run_p_value(canaries, guesses, right, 0.0, delta) > ERROR_RATE:
        return -math.inf
    while _one_run_p_value(canaries, guesses, right, high, delta) <= ERROR_RATE:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        if _one_run_p_value(canaries, guesses, right, middle, delta) <= ERROR_RATE:
            low = middle
        else:
            high = middle
    return low


def _one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The most likely that a mechanism of (epsilon, delta)-DP makes `right` guesses or more right."""
    q = 1 / (1 + math.exp(-epsilon))
    tail = float(stats.binom.sf(right - 1, guesses, q))
    if delta == 0:
        return tail
    worst = total = 0.0
    for i, chance in enumerate(stats.binom.pmf(range(right - 1, -1, -1), guesses, q), start=1):
        total += float(chance)
        worst = max(worst, total / i)
    return min(1.0, tail + 2 * canaries * delta * worst)
