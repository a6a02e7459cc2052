"""PEARL's Fig. 2: the power of a two-sample test by chosen frequencies (Liew, Takahashi and Ueno 2021, appendix D).

    python -m benchmarks.synthesis.power [--trials 100] [--repeats 5]

P = N(0, I) and Q = N(e1, I), 1,000 samples of each, in 20 to 50 dimensions; the share of trials that reject P = Q.
`normal`: 20 random frequencies. `unoptimised`: 20, of which one alone has a part in the first dimension, where P and Q
differ. `optimised`: that one alone. The paper names neither statistic nor level; this is the statistic of
Chwialkowski and others 2015, which it cites: n z' S^-1 z for the mean z and covariance S of the differences of cosines
and sines, against chi-squared at .05. `paper`: frequencies of unit variance in every dimension, as appendix D has them:
in d dimensions a characteristic function is then about exp(-d / 2), below the error of 1,000 samples. `scaled`: the
same divided by the mean distance of two rows, as the method scales them.
"""

import numpy as np
from scipy.stats import chi2

from benchmarks.kit import Cell, arguments, head, row

SAMPLES, FREQUENCIES, LEVEL = 1_000, 20, 0.05
DIMENSIONS = range(20, 51, 5)


def rejects(frequencies: np.ndarray, draw: np.random.Generator) -> bool:
    """Whether the test at these `[k, d]` frequencies distinguishes samples of P and Q."""
    first, second = draw.normal(size=(2, SAMPLES, frequencies.shape[1]))
    second[:, 0] += 1
    phases = first @ frequencies.T, second @ frequencies.T
    gaps = np.hstack([np.cos(phases[0]) - np.cos(phases[1]), np.sin(phases[0]) - np.sin(phases[1])])
    mean, covariance = gaps.mean(axis=0), np.cov(gaps.T)
    return bool(SAMPLES * mean @ np.linalg.solve(covariance, mean) > chi2.ppf(1 - LEVEL, gaps.shape[1]))


def frequency_sets(dimensions: int, draw: np.random.Generator) -> dict[str, np.ndarray]:
    normal, chosen = draw.normal(size=(2, FREQUENCIES, dimensions))
    chosen[1:, 0] = 0
    return {"normal": normal, "unoptimised": chosen, "optimised": chosen[:1]}


def main() -> None:
    options = arguments(__doc__, trials=100, repeats=5)
    draw = np.random.default_rng(0)
    head("frequencies", "of", *(f"d = {d}" for d in DIMENSIONS))
    for scale in ("paper", "scaled"):
        found: dict[str, list[Cell]] = {}
        for d in DIMENSIONS:
            distance = np.sqrt(2 * d) if scale == "scaled" else 1
            shares: dict[str, list[float]] = {}
            for _ in range(options.repeats):
                trials = [frequency_sets(d, draw) for _ in range(options.trials)]
                for name in trials[0]:
                    share = np.mean([rejects(each[name] / distance, draw) for each in trials])
                    shares.setdefault(name, []).append(float(share))
            for name, each in shares.items():
                found.setdefault(name, []).append(Cell.of(each))
        for name, cells in found.items():
            row(name, scale, *cells)


if __name__ == "__main__":
    main()
