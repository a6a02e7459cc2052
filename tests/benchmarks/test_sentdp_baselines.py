"""The baselines of the utility benchmark keep the guarantees that their rows state."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sentdp.baselines import Box, ball_noise, mean_laplace, truncation

DIMENSION = 24


def unit_rows(count: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_noise_of_the_ball_has_a_gamma_length() -> None:
    from scipy import stats

    lengths = np.linalg.norm(ball_noise((4_000, DIMENSION), np.random.default_rng(2)), axis=1)

    assert stats.kstest(lengths, stats.gamma(DIMENSION).cdf).pvalue > 1e-4


def test_laplace_scales() -> None:
    """Mean absolute noise of a Laplace variable is its scale; a ball's mean length is d times its scale."""
    source, epsilon, k = np.random.default_rng(3), 2.0, 5
    document = unit_rows(k, 4)
    box = Box.around(unit_rows(500, 5))
    noise = truncation([document] * 4_000, epsilon, box, source) - box.clip(document).mean(axis=0)
    lengths = np.linalg.norm(mean_laplace([document] * 4_000, epsilon, source) - document.mean(axis=0), axis=1)

    assert np.allclose(np.abs(noise).mean(axis=0), DIMENSION * (box.high - box.low) / (k * epsilon), rtol=0.1)
    assert lengths.mean() == pytest.approx(DIMENSION * 2 / (k * epsilon), rel=0.02)
