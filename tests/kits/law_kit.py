"""Whether counts follow a law, with a false alarm in fewer than one of a million tests."""

import numpy as np
from scipy import stats

CELL_MIN = 50.0  # how often each cell is expected: for rarer ones the chi-square law is no bound
FALSE_ALARM = 1e-9  # at this size of cells the approximation adds less than the rest of one in a million


def p_value(counts: np.ndarray, law: np.ndarray) -> float:
    """Pearson's chi-square of counts against weights of their outcomes; the rarest outcomes are one cell together."""
    expected = law / law.sum() * counts.sum()
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    rare = int((expected < CELL_MIN).sum())
    if rare:
        rare = max(rare, int(np.searchsorted(np.cumsum(expected), CELL_MIN)) + 1)
        counts = np.append(counts[rare:], counts[:rare].sum())
        expected = np.append(expected[rare:], expected[:rare].sum())
    assert len(counts) > 1, "no two outcomes are frequent enough"
    return float(stats.chisquare(counts, expected).pvalue)


def follows(counts: np.ndarray, law: np.ndarray) -> bool:
    return p_value(counts, law) > FALSE_ALARM
