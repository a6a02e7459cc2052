"""Random allocation costs at least what it is said to cost, and hardly less, for the worst gradients and for any."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import ndtr
from tiers import cells

from core.accounting.exact import delta_of_gaussian, epsilon_of_gaussian
from core.accounting.planning import calibrate_allocation, compare
from core.accounting.plans import Kind, PlanAdjacency, RandomAllocation
from core.accounting.pld import certified_epsilon
from core.accounting.random_allocation import Change, hockey_stick
from core.errors import OutOfRange, UnsupportedEvent

Array = npt.NDArray[np.float64]

BOTH = (PlanAdjacency.ADD_REMOVE, PlanAdjacency.REPLACE_ONE)


def certified(steps: int, epochs: int, noise: float, delta: float, adjacency: PlanAdjacency) -> float:
    return certified_epsilon(((RandomAllocation(steps, noise, adjacency), epochs),), delta)


def test_an_epoch_of_one_step_is_the_gaussian_mechanism() -> None:
    for noise in [0.2, 5.0]:
        for change, distance in ((Change.REMOVE, 1), (Change.ADD, 1), (Change.REPLACE, 2)):
            epsilons = np.linspace(0, 6, 7) * distance / noise
            exact = np.array([delta_of_gaussian(epsilon, distance / noise) for epsilon in epsilons])
            bounds = hockey_stick(change, noise=noise, steps=1, epsilons=epsilons)
            assert np.all(bounds >= exact)
            assert bounds == pytest.approx(exact, rel=1e-6)
        for adjacency, distance in zip(BOTH, (1, 2), strict=True):
            exact_epsilon = epsilon_of_gaussian(1e-6, distance * 7**0.5 / noise)
            assert exact_epsilon <= certified(1, 7, noise, 1e-6, adjacency) <= 1.01 * exact_epsilon


@pytest.mark.parametrize(
    ("steps", "printed"), cells([(196, 0.607), (52, 0.768), (182, 0.6135), (34, 0.8485)], kind="grid")
)
def test_table_1_of_ewtune_needs_less_noise_than_the_paper_prints_for_prv(steps: int, printed: float) -> None:
    """Epsilon 8 over 20 epochs, steps of an epoch for MNLI, QNLI, QQP, SST-2, both directions of add-remove."""
    assert certified(steps, 20, 0.982 * printed, 1e-6, PlanAdjacency.ADD_REMOVE) <= 8.0


def exact_of_two_steps(change: Change, noise: float, epsilon: float) -> float:
    """E (X_1 + X_2)_+ / 2: over X_2 by the trapezium rule, over X_1 in closed form."""
    ratio = math.exp(epsilon)
    gain, loss, constant = (a + b * ratio for a, b in change.value)

    def term(z: Array) -> Array:
        return gain * np.exp(z / noise - noise**-2 / 2) - loss * np.exp(-z / noise - noise**-2 / 2) + constant

    z, step = np.linspace(-12 - 2 / noise, 12 + 2 / noise, 16_001, retstep=True)
    other = term(z)
    low, high = np.full_like(z, -100.0), np.full_like(z, 100.0)
    for _ in range(100):
        middle = (low + high) / 2
        positive = term(middle) + other > 0
        low, high = np.where(positive, low, middle), np.where(positive, middle, high)
    kink = (low + high) / 2
    inner = gain * ndtr(1 / noise - kink) - loss * ndtr(-1 / noise - kink) + (constant + other) * ndtr(-kink)
    weights = np.exp(-z * z / 2) * step / math.sqrt(2 * math.pi)
    return float((np.maximum(inner, 0.0) * weights).sum()) / 2


@pytest.mark.parametrize("change", list(Change))
@pytest.mark.parametrize(("noise", "largest"), cells([(0.7, 5.0), (0.3, 20.0), (2.0, 1.5)], kind="grid"))
def test_the_bound_is_just_above_the_truth_for_two_steps(change: Change, noise: float, largest: float) -> None:
    for epsilon in np.linspace(0, largest, 6):
        (bound,) = hockey_stick(change, noise=noise, steps=2, epsilons=np.array([epsilon]))
        exact = exact_of_two_steps(change, noise, float(epsilon))
        if exact > 1e-9:
            assert exact * (1 - 1e-4) <= bound <= 1.01 * exact  # the quadrature is good to 1e-4


Gradients = Callable[[int, Array], tuple[Array, Array]]
"""The two values' gradients `[n, 2]` in a step, from the releases before it, `[n, steps, 2]`."""


def opposite(step: int, seen: Array) -> tuple[Array, Array]:
    one = np.tile([1.0, 0.0], (len(seen), 1))
    return one, -one


def orthogonal(step: int, seen: Array) -> tuple[Array, Array]:
    return np.tile([1.0, 0.0], (len(seen), 1)), np.tile([0.0, 1.0], (len(seen), 1))


def one_is_zero(step: int, seen: Array) -> tuple[Array, Array]:
    one = np.tile([1.0, 0.0], (len(seen), 1))
    return one, np.zeros_like(one)


def adaptive(step: int, seen: Array) -> tuple[Array, Array]:
    """Along the sum of what was released, and against it only while it looks like the first value."""
    total = seen.sum(axis=1) + np.array([1e-9, 0.0])
    along = total / np.linalg.norm(total, axis=1, keepdims=True)
    return along, np.where(total[:, :1] > 0, -along, along[:, ::-1])


def losses(gradients: Gradients, *, steps: int, noise: float, draws: int) -> Array:
    """The privacy loss of an epoch, drawn with the first value in the data: ln of the ratio of the two densities."""
    rng = np.random.default_rng(3)
    joined = rng.integers(steps, size=draws)
    seen = np.zeros((draws, steps, 2))
    first, second = np.zeros((draws, steps)), np.zeros((draws, steps))
    for step in range(steps):
        u, v = gradients(step, seen[:, :step])
        release = noise * rng.standard_normal((draws, 2)) + u * (joined == step)[:, None]
        for shift, kept in ((u, first), (v, second)):
            kept[:, step] = ((release * shift).sum(axis=1) - (shift * shift).sum(axis=1) / 2) / noise**2
        seen[:, step] = release
    return np.logaddexp.reduce(first, axis=1) - np.logaddexp.reduce(second, axis=1)


@pytest.mark.parametrize("gradients", cells([opposite, adaptive, orthogonal, one_is_zero], fast=2, kind="grid"))
@pytest.mark.parametrize(
    ("steps", "noise", "largest"), cells([(3, 0.8, 4.0), (10, 0.6, 3.0), (30, 1.5, 0.8)], kind="grid")
)
def test_no_gradients_exceed_the_bound_and_opposite_ones_attain_it(
    gradients: Gradients, steps: int, noise: float, largest: float
) -> None:
    """Five standard errors each way."""
    draws = 200_000
    loss = losses(gradients, steps=steps, noise=noise, draws=draws)
    epsilons = np.linspace(0, largest, 5)
    bounds = hockey_stick(Change.REPLACE, noise=noise, steps=steps, epsilons=epsilons)
    for epsilon, bound in zip(epsilons, bounds, strict=True):
        gains = np.maximum(-np.expm1(epsilon - loss), 0.0)
        error = 5 * float(gains.std()) / draws**0.5 + 1e-5
        assert gains.mean() - error <= bound
        if gradients is opposite:
            assert gains.mean() + error >= bound / 1.01


# Epsilon for add-remove by pld-accounting 2.0 (geometric convolution): a lower and an upper bound.
PLD_ACCOUNTING = [
    ((2, 3, 0.9, 1e-6), 8.57408, 8.61163), ((8, 2, 2.0, 1e-6), 1.15776, 1.17040),
    ((30, 1, 0.55, 1e-5), 5.48919, 5.50632), ((10, 5, 1.0, 1e-5), 4.26526, 4.29685),
    ((67, 3, 0.6, 1e-5), 5.13752, 5.16316), ((100, 10, 0.8, 1e-6), 3.39862, 3.46736),
]  # fmt: skip


@pytest.mark.parametrize(("plan", "lower", "upper"), cells(PLD_ACCOUNTING, kind="grid"))
def test_the_certificate_agrees_with_another_library(
    plan: tuple[int, int, float, float], lower: float, upper: float
) -> None:
    assert lower <= certified(*plan, PlanAdjacency.ADD_REMOVE) <= 1.003 * upper


# Epsilon for replacing one row from 10^8 steps of simulation with opposite gradients, good to about 0.4 %.
SIMULATED = [((67, 3, 0.6, 1e-5), 5.862), ((10, 5, 1.0, 1e-5), 6.971), ((67, 20, 0.8, 1e-5), 7.744)]


@pytest.mark.parametrize(("plan", "simulated"), cells(SIMULATED, kind="grid"))
def test_the_certificate_for_replacing_one_row_is_tight(plan: tuple[int, int, float, float], simulated: float) -> None:
    assert 0.996 * simulated <= certified(*plan, PlanAdjacency.REPLACE_ONE) <= 1.01 * simulated


@pytest.mark.slow("grid")
@pytest.mark.parametrize(("epsilon", "steps", "epochs"), [(8.0, 30, 3), (1.0, 20, 1), (0.05, 5, 40)])
def test_calibrated_noise_meets_its_target_and_little_less(epsilon: float, steps: int, epochs: int) -> None:
    found = calibrate_allocation(epsilon, 1e-5, steps=steps, epochs=epochs)
    certificate = certified(steps, epochs, found.noise_multiplier, 1e-5, PlanAdjacency.ADD_REMOVE)
    assert 0.999 * epsilon <= found.certificate.epsilon <= epsilon
    assert certificate == pytest.approx(found.certificate.epsilon, rel=3e-3)
    assert certified(steps, epochs, found.noise_multiplier, 1e-5, PlanAdjacency.REPLACE_ONE) > epsilon


@pytest.mark.slow("grid")
def test_an_epsilon_beyond_the_least_noise_gets_that_noise() -> None:
    assert calibrate_allocation(500.0, 1e-5, steps=30, epochs=1).noise_multiplier == 0.2


def test_only_the_certificate_prices_random_allocation() -> None:
    lines = compare(RandomAllocation(2, 2.0), 1, 1e-5)
    assert {line.name for line in lines if line.result.kind is Kind.BOUND} == {"pld"}
    assert {line.result.kind for line in lines if line.name != "pld"} == {Kind.VACUOUS}
    with pytest.raises(UnsupportedEvent):
        certified_epsilon(((RandomAllocation(20, 1.0), 3),), 1e-5, optimistic=True)


def test_events_out_of_range_are_refused() -> None:
    for steps, noise in [(0, 1.0), (1_000_001, 1.0), (10, 0.1), (10, 1001.0), (10, math.nan)]:
        with pytest.raises(OutOfRange):
            RandomAllocation(steps, noise)
