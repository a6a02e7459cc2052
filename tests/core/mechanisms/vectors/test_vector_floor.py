"""The floor of metric DP: what the noise is added to, against exact arithmetic, for vectors that are near."""

from typing import Any

import mpmath
import numpy as np
import pytest
from tiers import cells

from core.mechanisms.vectors import metric
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.projection import spec_projection
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.spec import CLIP_NORM_MAX, CLIP_NORM_MIN, vector_spec

DIGITS = 60
Exact = list[Any]

CASES: dict[str, dict[str, Any]] = {
    "laplace": {"mechanism": "laplace", "dimension": 24},
    "laplace, wide": {"mechanism": "laplace", "dimension": 4096},
    "orthonormal": {"mechanism": "privemb", "dimension": 384, "output_dimension": 64},
    "gaussian": {"mechanism": "privemb", "dimension": 200, "output_dimension": 50, "projection": "gaussian"},
    "the paper's form": {"mechanism": "privemb", "dimension": 300, "strict": False, "beta": 0.93},
    "a small ball": {"mechanism": "privemb", "dimension": 64, "clip_norm": CLIP_NORM_MIN},
    "a large ball": {"mechanism": "laplace", "dimension": 64, "clip_norm": CLIP_NORM_MAX},
}


def made(**params: Any) -> MetricMechanism:
    spec = vector_spec(epsilon=0.5, **params)
    return vector_mechanism(spec, spec_projection(spec, tenant="a"))


def eta(mechanism: MetricMechanism) -> float:
    """Of the module's docstring."""
    d, m = mechanism.spec.dimension, mechanism.spec.output_dimension
    sums = 0.0 if mechanism.projection is None else d * np.sqrt(m)
    return float((sums + d / 2 + 5) * 2.0**-53)


def norm(numbers: Exact) -> Any:
    return mpmath.sqrt(mpmath.fdot(numbers, numbers))


def difference(one: Exact, other: Exact) -> Exact:
    return [a - b for a, b in zip(one, other, strict=True)]


def clipped(row: np.ndarray, clip_norm: float) -> Exact:
    """c(x), exactly."""
    exact = [mpmath.mpf(float(number)) for number in row]
    length = norm(exact)
    return exact if length <= clip_norm else [number * clip_norm / length for number in exact]


def projected(mechanism: MetricMechanism, point: Exact) -> Exact:
    """P of a point, exactly."""
    if mechanism.projection is None:
        return point
    return [mpmath.fdot(map(float, row), point) for row in mechanism.projection.matrix]


def near_pairs(mechanism: MetricMechanism, dtype: type) -> np.ndarray:
    """Pairs `[n, 2, d]`: short, long, and on either side of the ball's edge. They differ by one bit or by more."""
    source = np.random.default_rng(12)
    d, clip_norm = mechanism.spec.dimension, mechanism.spec.clip_norm
    pairs = []
    for length, share in ((0.3, 1e-16), (0.9, 1e-13), (1.0, 1e-15), (1.0, 1e-9), (40.0, 1e-12), (7.0, 1e-3)):
        row = source.normal(size=d)
        row *= length * clip_norm / np.linalg.norm(row)
        step = source.normal(size=d)
        step *= share * length * clip_norm / np.linalg.norm(step)
        pairs.append((row, row + step))
    return np.array(pairs).astype(dtype)


@pytest.mark.parametrize("dtype", cells([np.float32, np.float64]))
@pytest.mark.parametrize("case", cells(CASES, fast=3))
def test_no_two_points_are_further_apart_than_their_vectors_but_for_the_floor(case: str, dtype: type) -> None:
    mechanism = made(**CASES[case])
    spec, floor = mechanism.spec, 2 * eta(mechanism) * mechanism.spec.clip_norm
    spectral_norm_bound = 1.0 if mechanism.projection is None else mechanism.projection.spectral_norm_bound
    epsilon = spec.epsilon if spec.beta is None else spec.epsilon * spectral_norm_bound / (1 + spec.beta)
    pairs = near_pairs(mechanism, dtype)
    points = mechanism.clipped_projection(pairs.reshape(-1, spec.dimension)).reshape(len(pairs), 2, -1)

    with mpmath.workdps(DIGITS):
        for pair, computed in zip(pairs, points, strict=True):
            exact = [clipped(row, spec.clip_norm) for row in pair]
            given = [[mpmath.mpf(float(number)) for number in point] for point in computed]
            for point, truth in zip(given, exact, strict=True):
                error = norm(difference(point, projected(mechanism, truth)))
                assert error <= eta(mechanism) * spectral_norm_bound * spec.clip_norm
            distance = norm(difference(*exact))
            exponent = norm(difference(*given)) / mechanism.scale
            assert exponent <= epsilon * (distance + floor)
            assert exponent <= 2 * epsilon * spec.clip_norm
            if distance > 2.0**28 * floor:
                assert exponent <= epsilon * distance, "the wider noise covers it"


def test_a_short_vector_is_not_moved_by_laplace() -> None:
    mechanism = made(mechanism="laplace", dimension=8)
    rows = np.random.default_rng(3).normal(size=(50, 8)) / 8
    assert np.array_equal(mechanism.clipped_projection(rows), rows)


def test_vectors_whose_squares_overflow_are_clipped_like_others() -> None:
    for mechanism in ["laplace", "privemb"]:
        metric_mechanism = made(mechanism=mechanism, dimension=6)
        directions = np.array([[3.0, 4.0, 0, 0, 0, 0], [1.0, 1.0, 1.0, 1.0, -1.0, 1.0], [0, 0, 0, 0, 0, 2.0]])
        ordinary = metric_mechanism.clipped_projection(directions)
        for factor in (1e150, 1e155, 1e200, 1e307):
            assert np.allclose(metric_mechanism.clipped_projection(directions * factor), ordinary, rtol=0, atol=1e-14)
        mixed = np.concatenate([directions * 1e300, np.zeros((1, 6)), np.full((1, 6), 5e-324)])
        points = metric_mechanism.clipped_projection(mixed)
        assert np.allclose(points[:3], ordinary, rtol=0, atol=1e-14)
        assert (np.abs(points[3:]) < 1e-300).all()


def test_the_sum_with_the_noise_is_rounded_as_a_function_of_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two vectors and two noises of the same exact sum give the same release."""
    mechanism = made(mechanism="laplace", dimension=3)
    noises = iter([np.array([[2.0**-30, 0.5, -1.0]]), np.array([[0.0, 0.25, -1.5]])])

    def add(values: np.ndarray, **_: object) -> None:
        values += next(noises)

    monkeypatch.setattr(metric, "add_l2_laplace", add)
    one = mechanism.release(np.array([[0.25, 0.25, 0.0]]))
    other = mechanism.release(np.array([[0.25 + 2.0**-30, 0.5, 0.5]]))
    assert np.array_equal(one, other)
