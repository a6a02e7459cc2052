"""What the black-box privacy audits share: how many runs, and what their hits prove."""

import math
import os

from scipy import stats

RUNS = int(os.environ.get("AUDIT_RUNS", "100000"))
ERROR_RATE = 1e-6


def epsilon_bound(often: int, seldom: int, runs: int) -> float:
    """A lower bound on ln(P[event | document] / P[event | neighbour]), true with probability 1 - ERROR_RATE.

    `often` and `seldom` are the hits of one event in `runs` runs on either side; Clopper and Pearson's limits.
    """
    if not often:
        return -math.inf
    low = stats.beta.ppf(ERROR_RATE / 2, often, runs - often + 1)
    high = stats.beta.ppf(1 - ERROR_RATE / 2, seldom + 1, runs - seldom)
    return math.log(low / high)
