"""The bootstrap behind forecasts: regular and irregular spending, and how often the band is right."""

import numpy as np
import pytest

from service.budget.forecasting import INTERVALS_MAX, LINE_MAX, forecast


def test_constant_spending_has_no_band() -> None:
    found = forecast([2.0] * 10, 20.0)
    assert (found.exhausted.low, found.exhausted.middle, found.exhausted.high) == (10, 10, 10)
    assert [(number, band.low, band.high) for number, band in found.line] == [
        (n, 2.0 * n, 2.0 * n) for n in range(1, 11)
    ]


def test_irregular_spending_has_a_band_around_the_middle() -> None:
    found = forecast([0, 0, 5, 1, 0, 9, 0, 3], 100.0)
    assert found.exhausted.low < found.exhausted.middle < found.exhausted.high
    assert found.per_interval.low < 18 / 8 < found.per_interval.high
    assert all(band.low <= band.middle <= band.high for _, band in found.line)
    assert found == forecast([0, 0, 5, 1, 0, 9, 0, 3], 100.0)


def test_an_end_beyond_the_horizon_is_unknown() -> None:
    never = forecast([0.0] * 8, 1.0)
    assert (never.exhausted.low, never.exhausted.high) == (None, None)
    assert len(never.line) == LINE_MAX
    assert never.line[-1][0] == INTERVALS_MAX
    sometimes = forecast([0.0] * 19 + [100.0], 100.0)
    assert sometimes.exhausted.low is not None
    assert sometimes.exhausted.high is None, "some futures draw only intervals without spending"
    with pytest.raises(ValueError, match="history"):
        forecast([], 1.0)


def test_the_band_contains_the_end_about_as_often_as_it_says() -> None:
    draws = np.random.default_rng(7)
    inside = 0
    for _ in range(200):
        found = forecast(draws.poisson(5, 28).astype(float).tolist(), 300.0).exhausted
        end = int(np.argmax(np.cumsum(draws.poisson(5, 1000)) >= 300)) + 1
        inside += found.low <= end <= found.high
    assert 0.82 <= inside / 200 <= 0.98
