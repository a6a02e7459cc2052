"""The private vector mechanisms by name; loads torch and scipy, for workers."""

from __future__ import annotations

from collections.abc import Callable

from core.mechanisms.vectors.codebook import CodebookMechanism
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.privunit import PrivUnitMechanism
from core.mechanisms.vectors.projection import Projection
from core.mechanisms.vectors.release import VectorMechanism
from core.mechanisms.vectors.spec import VectorSpec

_CLASSES: dict[str, Callable[[VectorSpec, Projection | None], VectorMechanism]] = {
    "privemb": MetricMechanism,
    "laplace": MetricMechanism,
    "privunit": PrivUnitMechanism,
    "codebook": CodebookMechanism,
}


def vector_mechanism(spec: VectorSpec, projection: Projection | None) -> VectorMechanism:
    """The mechanism that `spec` names; `projection` as `spec_projection` gives it.

    Raises: ValueError where the projection is not the spec's.
    """
    return _CLASSES[spec.mechanism](spec, projection)
