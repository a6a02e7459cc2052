"""Metric DP of vectors that come as JSON: noise is added to what the caller sent, not to a rounding of it."""

from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

from core.mechanisms.vectors import metric
from core.mechanisms.vectors.spec import VECTOR_MECHANISMS, VectorSpec, vector_spec
from gpu_workers.engine.arrays import ArrayPool, BlockArray
from gpu_workers.handlers.embedder import VectorReleaser
from gpu_workers.handlers.tasks import VectorTask
from service.vectors.service import array_batch, matrix_of


def points_before_noise(rows: list[list[float]], spec: VectorSpec, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """What the noise is added to, by the path of a JSON request, from its parsed body to the worker's mechanism."""
    arrays = ArrayPool(bytes_max=1 << 24)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(metric, "add_l2_laplace", lambda values, **_: seen.append(values.copy()))
    released = BlockArray(arrays.block(4 * len(rows) * spec.output_dimension), "float32", (len(rows), 2))
    batch = array_batch(arrays, matrix_of(rows), spec, tenant="acme")
    encoder: Any = SimpleNamespace(packs_of="another encoder's")
    (count,) = VectorReleaser(encoder).prepare([VectorTask(spec, "a", released, vectors=batch.vectors)])()
    assert count == len(rows)
    return np.concatenate(seen)


def distance(one: Any, other: Any) -> Any:
    with mpmath.workdps(60):
        pairs = zip(one, other, strict=True)
        return mpmath.sqrt(sum((mpmath.mpf(float(a)) - mpmath.mpf(float(b))) ** 2 for a, b in pairs))


def test_vectors_reach_every_mechanism_as_they_were_sent() -> None:
    rows = [[0.1, 1e-300], [3e300, -4e300]]
    for mechanism in VECTOR_MECHANISMS:
        spec = vector_spec(mechanism=mechanism, dimension=2, epsilon=1)
        batch = array_batch(ArrayPool(bytes_max=1 << 20), matrix_of(rows), spec, tenant="acme")
        assert batch.vectors is not None
        assert batch.vectors.read().tolist() == rows


@pytest.mark.parametrize("mechanism", ["laplace", "privemb"])
@pytest.mark.parametrize("separation", [2.0**-43, 2.0**-30, 2.0**-20])
@pytest.mark.parametrize("length", [0.5, 3.0])
def test_near_vectors_stay_as_near_as_they_were_sent(
    monkeypatch: pytest.MonkeyPatch, mechanism: str, separation: float, length: float
) -> None:
    """By a cast to float32, 1.1e-13 became 6e-8: halfway between two float32 numbers one goes down and one goes up."""
    halfway = length * (1 + 2.0**-24)
    rows = [[halfway - separation / 2, 0.25], [halfway + separation / 2, 0.25]]
    spec = vector_spec(mechanism=mechanism, dimension=2, epsilon=1)
    near, far = points_before_noise(rows, spec, monkeypatch)
    floor = 2 * (2 * np.sqrt(2) + 2 / 2 + 5) * 2.0**-53
    assert distance(near, far) <= distance(*rows) + floor
