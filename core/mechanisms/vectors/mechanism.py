"""The private vector mechanisms by name. Loads torch and scipy, for workers."""

from __future__ import annotations

from collections.abc import Callable

from core.mechanisms.vectors.codebook import Codebook, CodebookMechanism
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.privunit import PrivUnitMechanism
from core.mechanisms.vectors.projection import Projection
from core.mechanisms.vectors.release import VectorMechanism
from core.mechanisms.vectors.spec import VectorSpec
from core.mechanisms.vectors.trained_codebook import TrainedCodebookMechanism
from core.mechanisms.vectors.vector_pack import VectorPack

_CLASSES: dict[str, Callable[[VectorSpec, Projection | None], VectorMechanism]] = {
    "privemb": MetricMechanism,
    "laplace": MetricMechanism,
    "privunit": PrivUnitMechanism,
}


def vector_mechanism(
    spec: VectorSpec,
    projection: Projection | None,
    pack: VectorPack | None = None,
    codebook: Codebook | None = None,
) -> VectorMechanism:
    """Return the mechanism of `spec`. Pass the result of `spec_projection`, and a `pack` if the spec uses `pca`.

    `codebook`: the spherical codebook of the spec, derived if it is not given.

    Raises: ValueError if the projection is not the spec's, or the pack is missing.
    """
    if spec.projection == "pca":
        if pack is None:
            raise ValueError("pca needs a vector pack")
        if spec.is_trained:
            return TrainedCodebookMechanism(spec, pack)
        projection = pack.projection(spec.output_dimension)
    if spec.mechanism == "codebook":
        return CodebookMechanism(spec, projection, codebook)
    return _CLASSES[spec.mechanism](spec, projection)
