"""The rows of the comparison: the product's mechanisms at a given worst-case epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.mechanisms.vectors.projection import VectorPack, spec_projection
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.release import Vectors
from core.mechanisms.vectors.spec import METRIC_MECHANISMS, vector_spec

WORST_CASES = (2, 4, 10, 20)  # epsilon over the unit ball: metric mechanisms at 1, 2, 5, 10 per unit of distance
M1 = "M1 (laplace)"
M2_STRICT = "M2 strict, Gaussian, m = 55"
BETAS = (0.5, 0.7, 0.9)
_TENANT = "benchmark"


@dataclass(frozen=True)
class Method:
    """One row: a mechanism and its parameters."""

    name: str
    mechanism: str
    options: dict[str, Any]

    @property
    def guarantee(self) -> str:
        """What the row's epsilon means."""
        if self.mechanism not in METRIC_MECHANISMS:
            return "pure DP"
        return "metric DP, if the data's width is small" if "beta" in self.options else "metric DP"

    def release(self, vectors: Vectors, *, worst_case: float, pack: VectorPack) -> Vectors:
        """Released vectors at this worst-case epsilon over vectors of length 1 (by the paper's own claim, where the
        paper's form promises less)."""
        epsilon = worst_case / 2 if self.mechanism in METRIC_MECHANISMS else worst_case
        spec = vector_spec(mechanism=self.mechanism, dimension=vectors.shape[1], epsilon=epsilon, **self.options)
        return vector_mechanism(spec, spec_projection(spec, tenant=_TENANT), pack).release(vectors)


def paper(beta: float) -> str:
    """The name of the paper's form at this beta."""
    return f"M2 (privemb), beta {beta}"


METHODS = (
    Method(M1, "laplace", {}),
    *(Method(paper(beta), "privemb", {"strict": False, "beta": beta}) for beta in BETAS),
    Method(M2_STRICT, "privemb", {"projection": "gaussian", "output_dimension": 55}),
    Method("M2 strict, orthonormal, m = 64", "privemb", {}),
    Method("M2 strict, pca", "privemb", {"projection": "pca"}),
    Method("privunit", "privunit", {}),
    Method("privunit, pca", "privunit", {"projection": "pca"}),
    Method("codebook, spherical, m = 64", "codebook", {}),
    Method("codebook, trained (pca)", "codebook", {"projection": "pca"}),
)
