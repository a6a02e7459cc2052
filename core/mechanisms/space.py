"""The public space in which sentence vectors are coded, as arrays. This module does not import torch."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CODE_MAX = 127
EXACT_MAX = 1 << 24


@dataclass(frozen=True)
class Space:
    """A public space: int8 `directions` `[r, d]`, float32 `factor` and `shift` `[r]`: y = factor * <x, w> + shift."""

    directions: npt.NDArray[np.int8]
    factor: npt.NDArray[np.float32]
    shift: npt.NDArray[np.float32]

    @property
    def rank(self) -> int:
        return len(self.directions)

    def is_exact(self) -> bool:
        """Whether every partial sum of a projection is an integer below 2^24."""
        reach = np.abs(self.directions.astype(np.int64)).sum(axis=1).max() * CODE_MAX
        return int(reach) < EXACT_MAX and int(self.directions.min()) >= -CODE_MAX
