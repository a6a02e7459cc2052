"""`laplace` and `privemb`: the vector, or a public projection of it, plus L2-Laplace noise.

Guarantee: metric DP. For any vectors x, x' and every set S, Pr[A(x) in S] <= e^(eps |c(x) - c(x')|) Pr[A(x') in S],
where c clips to the ball of radius C = `clip_norm`. Since c moves no two points apart, |c(x) - c(x')| <= |x - x'|;
since the ball is 2 C wide, it is pure 2 C eps-DP over all pairs of vectors.

Proof. With P the projection (`laplace`: the identity) and s >= its largest singular value, |P c(x) - P c(x')| <=
s |c(x) - c(x')|, and the noise has the density exp(-eps |z| / s), up to a constant. It holds for every input: nothing
is assumed of the data. The paper's form (`strict` False) has the density exp(-eps |z| / (1 + beta)) instead; its
theorem lets 1 + beta stand for s where the data is of small Gaussian width, which nothing checks for callers' vectors.
What it gives every input is eps s / (1 + beta) per unit, and `pricing` charges that.

Rounding. Clipping and projection are computed in float64 and differ from P c(x) by at most C d sqrt(m) 2^-52 or so:
below 1e-9 of the ball's width. The noise is wider than eps asks by 2^-28, which covers that in the worst case 2 C eps;
between vectors nearer than a thousandth of C, the exponent may exceed eps |x - x'| by 1e-9 eps C.

Source: Feyisetan and Kasiviswanathan 2021 (the paper's M1 and M2); the bound by s in its place is ours.
"""

from __future__ import annotations

import numpy as np

from core.mechanisms.vectors.noise import FloatArray, add_l2_laplace, noise_generator, round_to_grid, row_norms
from core.mechanisms.vectors.projection import Projection
from core.mechanisms.vectors.release import VectorMechanism, Vectors
from core.mechanisms.vectors.spec import VectorSpec
from core.mechanisms.vectors.threads import share_blocks

_ROUNDING = 1.0 + 2.0**-28


class MetricMechanism(VectorMechanism):
    """See the module docstring for guarantee, proof and source."""

    def __init__(self, spec: VectorSpec, projection: Projection | None) -> None:
        super().__init__(spec, projection)
        stretch = 1.0 if projection is None else projection.stretch
        self.scale = _ROUNDING * (stretch if spec.beta is None else 1.0 + spec.beta) / spec.epsilon

    def _release(self, vectors: Vectors, blocks: list[slice], released: Vectors) -> None:
        def work(share: list[slice]) -> None:
            generator = noise_generator()
            for block in share:
                values = self.clipped_projection(vectors[block])
                add_l2_laplace(values, scale=self.scale, generator=generator)
                released[block] = round_to_grid(values, scale=self.scale)

        share_blocks(work, blocks)

    def clipped_projection(self, vectors: Vectors) -> FloatArray:
        """P c(x) of each row, float64 `[n, m]`: without noise, not private."""
        exact = vectors.astype(np.float64)
        # no square of a float32 number leaves the range of float64
        factors = np.minimum(1.0, self.spec.clip_norm / np.maximum(row_norms(exact), self.spec.clip_norm))
        values = self.projected(exact)
        values *= factors[:, None]
        return values
