"""Maps a sentence vector to the nearest of N public centroids, in integer arithmetic.

A unit vector s becomes int8 (`x`), is projected on r public directions (`y`, int8 again) and compared with N public
int8 centroids: c(s) = argmax_n 2 <y, c_n> - |c_n|^2, the smallest n on ties.

Exactness: |x|, |w|, |y|, |c| entries are at most 127. The pack's loader enforces 127 sum_i |w_ji| < 2^24 and
r <= 1,024, so that every partial sum is an integer below 2^24, exact in int32 and in float32 in any order. Between
the two matrix products each number goes through one product, one sum and one rounding in float32, elementwise and
independent of its neighbours. Therefore a row's code is a function of that row alone.

An infinite or undefined coordinate becomes 127, -127 or 0. The result is still a code, so the guarantee does not depend
on finite input.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.integer_vectors import CodeMatrix, code_scale
from core.mechanisms.space import CODE_MAX, Space

_DISTANCES_MAX = 1 << 18  # distances computed at once: 1 MiB, which fits the processor's cache
_ROWS_MAX = 2_048


class Projection:
    """A space on one device; maps rows to int8 coordinates."""

    def __init__(self, space: Space, device: torch.device) -> None:
        self.device = device
        self._scale = float(code_scale(space.directions.shape[1]))
        self._directions = CodeMatrix(torch.tensor(space.directions), device)
        self._factor = torch.tensor(space.factor, device=device)
        self._shift = torch.tensor(space.shift, device=device)

    def coordinates(self, rows: torch.Tensor) -> torch.Tensor:
        """Return y of every row of float32 `[n, d]`: int8 `[n, r]`."""
        scaled = rows.to(self.device, torch.float32) * self._scale
        placed = self._directions.dots(_to_int8(scaled)).to(torch.float32) * self._factor
        return _to_int8(placed.add_(self._shift))

    def self_check(self) -> bool:
        """Whether the device's products equal 64-bit integer arithmetic."""
        return _exact_everywhere(self._directions)


class CodeSpace:
    """A projection and its codebooks on one device; `codebooks` maps N to int8 centroids `[N, r]`."""

    def __init__(self, space: Space, codebooks: Mapping[int, npt.NDArray[np.int8]], device: torch.device) -> None:
        self.projection = Projection(space, device)
        self._centroids = {size: CodeMatrix(torch.tensor(codes), device) for size, codes in codebooks.items()}
        self._squared = {
            size: torch.tensor(np.square(codes, dtype=np.int32).sum(axis=1, dtype=np.int32), device=device)
            for size, codes in codebooks.items()
        }

    def nearest(self, rows: torch.Tensor, size: int) -> npt.NDArray[np.int64]:
        """Return the code of every row of float32 `[n, d]` in the codebook of `size` centroids: int64 `[n]`."""
        found = np.empty(len(rows), dtype=np.int64)
        at_once = max(1, _DISTANCES_MAX // size)
        for start in range(0, len(rows), _ROWS_MAX):
            places = self.projection.coordinates(rows[start : start + _ROWS_MAX])
            for place in range(0, len(places), at_once):
                dots = self._centroids[size].dots(places[place : place + at_once])
                nearest = _first_smallest(torch.sub(self._squared[size], dots, alpha=2, out=dots))
                found[start + place : start + place + len(nearest)] = nearest
        return found

    def self_check(self) -> bool:
        """Whether the device's products equal 64-bit integer arithmetic."""
        return self.projection.self_check() and all(map(_exact_everywhere, self._centroids.values()))


def _exact_everywhere(matrix: CodeMatrix) -> bool:
    """Whether products are exact for the longest possible rows. Unlike other codes, these have no unit length."""
    rows = torch.randint(-CODE_MAX, CODE_MAX + 1, (37, matrix.dimension), dtype=torch.int8)
    rows[0], rows[1] = CODE_MAX, -CODE_MAX
    return matrix.self_check() and matrix.is_exact_for(rows) and matrix.is_exact_for(rows[:1])


def _first_smallest(distance: torch.Tensor) -> npt.NDArray[np.int64]:
    """Return for each row of int32 `[n, N]` the first index of its smallest element."""
    if distance.device.type == "cpu":
        # NumPy's argmin is vectorised and guarantees the first index; torch's guarantees neither
        return np.asarray(distance.numpy().argmin(axis=1), dtype=np.int64)
    size = distance.shape[1]
    ranked = distance.to(torch.int64) * size + torch.arange(size, device=distance.device)
    return np.asarray((ranked.amin(dim=1) % size).cpu().numpy(), dtype=np.int64)


def _to_int8(values: torch.Tensor) -> torch.Tensor:
    """Round elementwise to -127..127. Overwrites its argument."""
    return values.nan_to_num_().round_().clamp_(-CODE_MAX, CODE_MAX).to(torch.int8)
