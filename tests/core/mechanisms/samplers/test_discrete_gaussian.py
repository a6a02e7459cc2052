"""Distribution tests of the discrete Gaussian. Each raises a false alarm with probability 1e-6."""

import numpy as np
import pytest
from law_kit import follows
from scipy import stats

from core.mechanisms.samplers import discrete_noise
from core.mechanisms.samplers.discrete_noise import GAUSSIAN_SCALE_MAX, discrete_gaussian

RUNS = 50_000
FALSE_ALARM = 1e-6


def fits(drawn: np.ndarray, scale: int) -> bool:
    reach = 40 * scale
    values = np.arange(-reach, reach + 1).astype(float)
    return follows(np.bincount(drawn + reach, minlength=2 * reach + 1), np.exp(-(values**2) / (2 * scale**2)))


def test_small_scales_follow_the_law() -> None:
    for scale in [1, 2, 5, 40]:
        drawn = discrete_gaussian(RUNS, scale=scale)
        assert drawn.dtype == np.int64
        assert fits(drawn, scale)
    assert discrete_gaussian(0, scale=3).shape == (0,)


def test_large_scales_follow_the_normal_law() -> None:
    for scale in [12_345, GAUSSIAN_SCALE_MAX]:
        assert stats.kstest(discrete_gaussian(RUNS, scale=scale) / scale, "norm").pvalue > FALSE_ALARM


def test_draws_are_independent() -> None:
    drawn = discrete_gaussian(RUNS, scale=1_000).reshape(-1, 2) / 1_000
    angle = np.arctan2(drawn[:, 0], drawn[:, 1])
    assert stats.kstest((angle + np.pi) / (2 * np.pi), "uniform").pvalue > FALSE_ALARM


def test_a_proposal_that_is_kept_unchanged_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above have power: the two-sided geometric proposal fails them."""
    monkeypatch.setattr(discrete_noise, "bernoulli_exp", lambda numerators, denominator: np.ones(len(numerators), bool))
    monkeypatch.setattr(discrete_noise, "_geometric", lambda count, *_: np.random.default_rng(0).geometric(0.2, count))
    assert not fits(discrete_gaussian(RUNS, scale=5), 5)


def test_scales_out_of_range_are_refused() -> None:
    for scale in [0, -1, GAUSSIAN_SCALE_MAX + 1]:
        with pytest.raises(ValueError, match="scale"):
            discrete_gaussian(1, scale=scale)
