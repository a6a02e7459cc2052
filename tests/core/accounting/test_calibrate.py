"""The estimate's multipliers, what they cost, and what is certified instead."""

import math

import pytest
from tiers import cells

from core.accounting.edgeworth import edgeworth_error, loss_moments
from core.accounting.planning import calibrate_noise, calibrate_steps, estimated_noise
from core.accounting.plans import NOISE_MULTIPLIER_MIN, SubsampledGaussian
from core.accounting.pld import certified_epsilon
from core.errors import OutOfRange

EWTUNE = [  # MNLI, QNLI, QQP, SST-2
    (2000 / 393000, 3930, 0.573, 9.60, 0.6055),
    (2000 / 105000, 1050, 0.739, 8.74, 0.7649),
    (2000 / 364000, 3640, 0.579, 9.61, 0.6124),
    (2000 / 68800, 688, 0.8215, 8.49, 0.8430),
]


@pytest.mark.parametrize(("rate", "steps", "printed", "cost", "certified"), cells(EWTUNE, kind="grid"))
def test_what_the_multipliers_of_ewtune_are(
    rate: float, steps: int, printed: float, cost: float, certified: float
) -> None:
    estimate = estimated_noise(8.0, 1e-6, sampling_rate=rate, steps=steps)
    assert estimate == pytest.approx(printed, abs=1.1e-3)
    plan = ((SubsampledGaussian(rate, printed), steps),)
    assert certified_epsilon(plan, 1e-6, interval=5e-4) == pytest.approx(cost, abs=6e-3)
    found = calibrate_noise(8.0, 1e-6, sampling_rate=rate, steps=steps)
    assert found.noise_multiplier == pytest.approx(certified, abs=1e-3)
    assert found.certificate.epsilon <= 8.0


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    cells(
        [
            (1.0, 1e-5, 0.01, 1000), (8.0, 1e-5, 1.0, 1000), (0.1, 1e-6, 0.001, 10_000), (20.0, 1e-5, 0.05, 5000),
            (4.0, 1e-6, 0.001, 1),
        ],
        fast=2, kind="grid",
    ),
)  # fmt: skip
def test_the_certified_noise_meets_the_target_and_wastes_nothing(
    epsilon: float, delta: float, rate: float, steps: int
) -> None:
    found = calibrate_noise(epsilon, delta, sampling_rate=rate, steps=steps)
    noise = found.noise_multiplier
    interval = found.certificate.loss_interval or None
    assert certified_epsilon(((SubsampledGaussian(rate, noise), steps),), delta, interval=interval) <= epsilon
    less = noise - 1e-3 * max(1.0, noise)
    tight = certified_epsilon(((SubsampledGaussian(rate, less), steps),), delta, interval=(interval or 1e-3) / 3)
    assert tight > epsilon


@pytest.mark.long
def test_a_loose_target_gets_the_least_noise_that_is_taken() -> None:
    found = calibrate_noise(1000.0, 1e-5, sampling_rate=0.5, steps=1)
    assert found.noise_multiplier == NOISE_MULTIPLIER_MIN
    assert found.certificate.epsilon <= 1000.0


def test_one_step_more_than_calibrated_is_too_many() -> None:
    for rate, noise in [(0.01, 0.8), (1.0, 30.0)]:
        found = calibrate_steps(3.0, 1e-5, sampling_rate=rate, noise_multiplier=noise)
        interval = found.certificate.loss_interval or None
        event = SubsampledGaussian(rate, noise)
        assert certified_epsilon(((event, found.steps),), 1e-5, interval=interval) <= 3.0
        assert certified_epsilon(((event, found.steps + 1),), 1e-5, interval=interval) > 3.0


def test_no_step_at_all_may_be_the_answer() -> None:
    found = calibrate_steps(0.01, 1e-9, sampling_rate=0.5, noise_multiplier=0.5)
    assert (found.steps, found.certificate) == (0, None)


def test_a_target_has_a_range() -> None:
    for epsilon in [0.0, -1.0, math.nan, 1e6]:
        with pytest.raises(OutOfRange):
            calibrate_noise(epsilon, 1e-5, sampling_rate=0.01, steps=10)


def test_the_error_of_the_expansion_is_that_of_the_paper() -> None:
    side = loss_moments(SubsampledGaussian(0.01, 1.0)).y
    assert edgeworth_error(side, 1000) == pytest.approx(0.255, abs=6e-4)
    assert edgeworth_error(side, 10**8) == pytest.approx(1.3e-4, abs=6e-6)
