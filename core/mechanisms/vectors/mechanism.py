"""The private vector mechanisms by name."""

from __future__ import annotations

from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.projection import Projection
from core.mechanisms.vectors.release import VectorMechanism
from core.mechanisms.vectors.spec import VectorSpec


def vector_mechanism(spec: VectorSpec, projection: Projection | None) -> VectorMechanism:
    """The mechanism that `spec` names; `projection` as `spec_projection` gives it."""
    if spec.is_metric:
        return MetricMechanism(spec, projection)
    raise ValueError("unknown vector mechanism")
