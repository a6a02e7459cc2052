"""`laplace` and `privemb`: the vector, or a public projection of it, plus L2-Laplace noise.

Guarantee: metric DP. For any vectors x, x' and every set S, Pr[A(x) in S] <= e^(eps |c(x) - c(x')|) Pr[A(x') in S],
where c clips to the ball of radius C = `clip_norm`. Clipping never increases a distance, so |c(x) - c(x')| <= |x - x'|.
The diameter of the ball is 2 C, so the release is pure 2 C eps-DP over all pairs of vectors.

Proof. With P the projection (`laplace`: the identity) and s >= its largest singular value, |P c(x) - P c(x')| <=
s |c(x) - c(x')|, and the noise has the density exp(-eps |z| / s), up to a constant. This holds for every input, without
assumptions about the data. The paper's form (`strict` False) has the density exp(-eps |z| / (1 + beta)) instead. Its
Lemma 4 replaces s by 1 + beta for data whose differences have a small Gaussian width, and nothing checks this property
of callers' vectors. For every input it guarantees eps s / (1 + beta) per unit, and `pricing` charges that.

Rounding. x is the row as given: a float32 file and a float64 list are used without conversion. The noise is added
to w(x), which is P c(x) computed in float64. With u = 2^-53, d and m the dimensions of x and w:

* the relative error of the norm of d numbers, summed in any order, is (d / 2 + 2) u. Therefore the clipping factor
  moves c(x) by at most (d / 2 + 3) u C (a vector whose computed norm is at most C does not move at all);
* each of the m sums of d products has an error of d u |P_i| |x|; all of them together, for |P|_F <= sqrt(m) s,
  d sqrt(m) u s |x|, which the factor reduces to d sqrt(m) u s C. Without a projection this error is 0;
* the product with the factor adds u s C, and the second-order terms fit into u C.

So |w(x) - P c(x)| <= eta s C with eta = (d sqrt(m) + d / 2 + 5) u, without a projection (d / 2 + 5) u, and
|w(x) - w(x')| <= s (|c(x) - c(x')| + 2 eta C). The sum of w(x) and the noise, correctly rounded, then rounded to the
public grid and to float32, is a function of the exact sum, so no further error of w matters. The noise is 2^-28 wider
than eps requires. Hence

* the worst case 2 C eps holds unchanged, since eta < 2^-34 at the largest dimensions (8,192 to 1,024);
* **the floor of metric DP**: the exponent exceeds eps |c(x) - c(x')| by less than 2 eta C eps, and only for two vectors
  at a distance below about 2^29 eta C. From 384 to 64 dimensions the excess is 7.3e-13 C eps, below a distance of
  2.0e-4 C; at the largest dimensions 6e-11 C eps, below .016 C; for `laplace` of 384 dimensions 4.4e-14 C eps, below
  1.2e-5 C.

Source: Feyisetan and Kasiviswanathan 2021 (the paper's M1 and M2); the bound with s is this project's.
"""

import numpy as np

from core.mechanisms.vectors.projection import Projection
from core.mechanisms.vectors.release import (
    FloatArray,
    Rows,
    VectorMechanism,
    Vectors,
    add_l2_laplace,
    noise_generator,
    round_to_grid,
    row_norms,
    scaled_rows,
    share_blocks,
)
from core.mechanisms.vectors.spec import VectorSpec

_ROUNDING = 1.0 + 2.0**-28


class MetricMechanism(VectorMechanism):
    """The module docstring has guarantee, proof and source."""

    def __init__(self, spec: VectorSpec, projection: Projection | None) -> None:
        super().__init__(spec, projection)
        spectral_norm_bound = 1.0 if projection is None else projection.spectral_norm_bound
        self.scale = _ROUNDING * (spectral_norm_bound if spec.beta is None else 1.0 + spec.beta) / spec.epsilon

    def _release(self, vectors: Rows, blocks: list[slice], released: Vectors) -> None:
        def work(share: list[slice]) -> None:
            generator = noise_generator()
            for block in share:
                values = self.clipped_projection(vectors[block])
                add_l2_laplace(values, scale=self.scale, generator=generator)
                released[block] = round_to_grid(values, scale=self.scale)

        share_blocks(work, blocks)

    def clipped_projection(self, vectors: Rows) -> FloatArray:
        """Return w(x), which is P c(x) of each row up to rounding, float64 `[n, m]`. Without noise: not private."""
        exact = vectors.astype(np.float64)
        with np.errstate(over="ignore"):
            norms = row_norms(exact)
        factors = self.spec.clip_norm / np.maximum(norms, self.spec.clip_norm)
        long = np.flatnonzero(np.isinf(norms))  # possible for float64: a square overflowed
        if len(long):
            exact[long] = scaled_rows(exact[long])
            factors[long] = self.spec.clip_norm / row_norms(exact[long])
        values = self.projected(exact)
        values *= factors[:, None]
        return values
