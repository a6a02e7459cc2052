"""The lemma behind the price of discrete noise: it is continuous noise, rounded at random."""

import mpmath
import numpy as np
import pytest

from core.errors import OutOfRange
from core.synthesis.pricing import noise_scale, noisy


def test_the_sum_of_rounding_weights_hardly_depends_on_what_is_rounded() -> None:
    """Poisson summation in the docstring's proof: within e^-300 of r sqrt(2 pi), wherever y lies."""
    with mpmath.workdps(200):
        whole = 4 * mpmath.sqrt(2 * mpmath.pi)
        for offset in ("0", "0.25", "0.5"):
            total = mpmath.fsum(mpmath.exp(-((z - mpmath.mpf(offset)) ** 2) / 32) for z in range(-160, 161))
            assert abs(total / whole - 1) < mpmath.exp(-300)


def test_rounded_continuous_noise_is_the_discrete_law() -> None:
    """At scale 5: the mixture over y ~ N(0, 25 - 16) of the rounding law, integrated, against exp(-z^2 / 50)."""
    y = np.linspace(-40, 40, 160_001)
    density = np.exp(-(y**2) / 18)
    for z in (0, 1, 7, 15):
        mixed = (density * np.exp(-((z - y) ** 2) / 32)).sum() / (density * np.exp(-(y**2) / 32)).sum()
        assert mixed == pytest.approx(np.exp(-(z**2) / 50), rel=1e-9)


def test_the_scale_is_the_least_that_is_worth_its_multiplier() -> None:
    assert noise_scale(3.0, squared_sensitivity=1) == 5  # 25 - 16 = 9
    assert noise_scale(3.0000001, squared_sensitivity=1) == 6
    assert noise_scale(0.5, squared_sensitivity=10**6) == 501


def test_a_multiplier_that_is_none_is_refused() -> None:
    for bad in [0.0, -1.0, float("nan"), float("inf")]:
        with pytest.raises(ValueError, match="positive"):
            noise_scale(bad, squared_sensitivity=4)


def test_noise_wider_than_the_sampler_is_refused() -> None:
    with pytest.raises(OutOfRange):
        noise_scale(10.0, squared_sensitivity=10**12)


def test_every_entry_has_its_own_noise() -> None:
    drawn = noisy(np.full((3, 4), 10**6), scale=1 << 20)
    assert drawn.shape == (3, 4)
    assert len(np.unique(drawn)) >= 11  # two of them are equal once in 50,000 times
