"""The batches of a private training, sampled exactly as accounted, and the noise of its steps.

With Poisson sampling each row joins a batch independently. With random allocation each row joins exactly one step of an
epoch.

Assumption of the noise on the sum of a step's clipped gradients: float64 stands for the real numbers. The noise is
drawn in float64 from a keyed AES stream. The sum with the noise is rounded to a public grid and to float32. This
depends only on noisy numbers and hides the last digits, but it is not a proof (docs/KNOWN_LIMITATIONS.md).
"""

import numpy as np
import numpy.typing as npt

from core.mechanisms.samplers.discrete_noise import two_sided_geometric
from core.mechanisms.samplers.exact import IntArray, uniform_indices
from core.mechanisms.vectors.release import FloatArray, round_to_grid

WEIGHT_RATIO_MAX = 100.0  # between the weights of two labels


def poisson_batch(*, rows: int, batch: int) -> IntArray:
    """Return the rows of one step: ascending int64 indices below `rows`. An empty batch is a valid outcome.

    Guarantee: every row is included with probability exactly batch / rows, independently of all others. The sampler
    uses integers from the operating system's CSPRNG: a row is included if a uniform integer below `rows` is below
    `batch`.

    Raises: ValueError unless 1 <= batch <= rows <= 2^32.
    """
    if not 1 <= batch <= rows:
        raise ValueError("the expected batch must lie between 1 and the rows")
    return np.flatnonzero(uniform_indices(rows, rows) < batch)


def random_allocation(*, rows: int, steps: int) -> IntArray:
    """Return the step of each row in one epoch of `steps` steps: int64 `[rows]`. A step may have no rows.

    Guarantee: every row's step is uniform in 0..steps-1, exactly, and independent of all others. The sampler uses
    integers from the operating system's CSPRNG.

    Raises: ValueError unless rows >= 1 and 1 <= steps <= 2^32.
    """
    if rows < 1:
        raise ValueError("the number of rows must be at least 1")
    return uniform_indices(rows, steps)


def noisy_counts(labels: IntArray, *, count: int, epsilon_nano: int) -> IntArray:
    """Return how many rows have each of `count` labels, with two-sided geometric noise: int64 `[count]`, may be
    negative. `labels`: int64 `[rows]`, below `count`.

    Guarantee: pure epsilon-DP at `epsilon_nano` nano for one row more or less, which changes one count by 1, and at
    twice that for replacing a row. The noise is drawn exactly, in integers.
    """
    exact = np.bincount(labels, minlength=count).astype(np.int64)
    return exact + two_sided_geometric(count, epsilon_nano=epsilon_nano, sensitivity=1)


def label_weights(sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the weight of each label's rows, float64 in [1 / WEIGHT_RATIO_MAX, 1]: the size of the smallest label over
    its own, so that all labels weigh the same together. `sizes`: shares, or noisy counts, which are raised to at least
    a hundredth of the largest one. A function of what is public or released.
    """
    sizes = np.maximum(sizes, sizes.max() / WEIGHT_RATIO_MAX)
    return sizes.min() / sizes if sizes.max() > 0 else np.ones_like(sizes)


def noisy_sum(total: FloatArray, *, deviation: float, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return `total` plus independent normal noise of standard `deviation` on every entry, for any shape.

    Guarantee: with a deviation of (noise multiplier) * C this is the Gaussian mechanism for a total that one row moves
    by at most C in l2 norm, over everything to which one `generator` adds noise in the step.
    """
    noisy = total + generator.normal(0.0, deviation, total.shape)
    return round_to_grid(noisy, scale=deviation)
