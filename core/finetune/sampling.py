"""The batches of a private training, sampled exactly as accounted, and the noise of its steps.

With Poisson sampling each row joins a batch independently. With random allocation each row joins exactly one step of an
epoch.

Assumption of the noise on the sum of a step's clipped gradients: float64 stands for the real numbers. The noise is
drawn in float64 from a keyed AES stream. The sum with the noise is rounded to a public grid and to float32. This
depends only on noisy numbers and hides the last digits, but it is not a proof (docs/KNOWN_LIMITATIONS.md).
"""

import numpy as np
import numpy.typing as npt

from core.mechanisms.samplers.exact import IntArray, uniform_indices
from core.mechanisms.vectors.release import FloatArray, round_to_grid


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


def noisy_sum(total: FloatArray, *, deviation: float, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return `total` plus independent normal noise of standard `deviation` on every entry, for any shape.

    Guarantee: with a deviation of (noise multiplier) * C this is the Gaussian mechanism for a total that one row moves
    by at most C in l2 norm, over everything to which one `generator` adds noise in the step.
    """
    noisy = total + generator.normal(0.0, deviation, total.shape)
    return round_to_grid(noisy, scale=deviation)
