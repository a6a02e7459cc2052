"""Unit vectors as small integers, their exact inner products, and their nearest public centroids.

Why integers: a float inner product varies with the batch's shape, the kernel and the device. One replaced sentence
could then change every other sentence's contribution in the last place, and the sensitivity would exceed the proven
one. In this module every sum is a sum of bounded integers, hence exact in any order: int8 products accumulate in int32,
or in float32, whose 24 bits hold every partial sum (Cauchy-Schwarz: |a||b| <= (SCALE_MAX + sqrt(d)/2)^2 < 2^24 for
d <= 2^20). Therefore a row's result is a function of that row alone, on every device, at every batch size and position.
This holds by construction and needs no measurement. It does not cover the encoder itself
(`gpu_workers.models.encoder`).

Cost of the rounding: about 1e-3 in a cosine.

**Codes** (`CodeSpace`). Maps a sentence vector to the nearest of N public centroids, in the same arithmetic. A unit
vector s becomes int8 (`x`), is projected on r public directions (`y`, int8 again) and compared with N public int8
centroids: c(s) = argmax_n 2 <y, c_n> - |c_n|^2, the smallest n on ties.

Exactness: |x|, |w|, |y|, |c| entries are at most 127. The pack's loader enforces 127 sum_i |w_ji| < 2^24 and
r <= 1,024, so that every partial sum is an integer below 2^24, exact in int32 and in float32 in any order. Between
the two matrix products each number goes through one product, one sum and one rounding in float32, elementwise and
independent of its neighbours. Therefore a row's code is a function of that row alone.

An infinite or undefined coordinate becomes 127, -127 or 0. The result is still a code, so the guarantee does not depend
on finite input.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.space import CODE_MAX, Space

SCALE_MAX = 512
_FINE = 2.0**14
_COORDINATE_MAX = 4.0
DIMENSION_MAX = 1 << 16
_EXTREME_ROWS = 64
_FACTOR_MAX = 1 << 20
_COMBINED_AT_ONCE = 1024  # codes in float64, so that they stay in the cache


def code_scale(dimension: int) -> int:
    """Return the integer length of a coded unit vector. Coordinates of 4.9 standard deviations still fit in int8."""
    return min(SCALE_MAX, int(26 * math.sqrt(dimension)))


def fine_integers(vectors: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Return `vectors - centre` in units of 2^-14, coordinates clipped to [-4, 4]: integers in float64, `[n, d]`.

    The operation is elementwise, so a row depends on itself alone. A non-finite coordinate becomes 0 or a bound.
    """
    moved = vectors.to(torch.float64) - centre.to(torch.float64)
    return (torch.nan_to_num(moved).clamp_(-_COORDINATE_MAX, _COORDINATE_MAX) * _FINE).round_()


def direction_codes(vectors: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Return the direction of `vectors - centre` as int8 codes of length about `code_scale(d)`, `[n, d]`."""
    return codes_of(fine_integers(vectors, centre))


def codes_of(fine: torch.Tensor) -> torch.Tensor:
    """Return the direction of rows of integers (float64) whose squares sum to at most 2^53: int8 `[n, d]`.

    The rows of `fine_integers` (squares of at most 2^32) and products with public codes satisfy this. The squared norm
    is then exact in any order. A zero row has code 0, so its cosine with everything is 0.
    """
    squared = (fine * fine).sum(dim=-1, keepdim=True)
    factor = torch.where(squared > 0, code_scale(fine.shape[-1]) / squared.clamp(min=1.0).sqrt(), 0.0)
    return (fine * factor).round_().clamp_(-CODE_MAX, CODE_MAX).to(torch.int8)


def _has_int8_units() -> bool:
    """Whether this processor multiplies int8 natively. Otherwise float32 is faster and gives the same integers."""
    flags = torch.cpu.get_capabilities()
    return bool(flags.get("avx512_vnni") or flags.get("avx_vnni") or flags.get("amx_int8"))


@cache
def _int8_is_exact(dimension: int) -> bool:
    """Whether int8 products of this dimension are correct at the extremes.

    The processor's flags do not show this: a library that must not use the newest instructions (`ONEDNN_MAX_CPU_ISA`)
    adds pairs of products in 16 bits, which overflow.
    """
    generator = torch.Generator().manual_seed(dimension)
    signs = torch.randint(0, 2, (_EXTREME_ROWS, dimension), generator=generator, dtype=torch.int8) * 2 - 1
    codes = signs * CODE_MAX
    codes[0], codes[1] = CODE_MAX, -CODE_MAX
    expected = codes.to(torch.float64) @ codes.to(torch.float64).t()
    return all(
        torch.equal(torch._int_mm(codes[:count], codes.t()).to(torch.float64), expected[:count])
        for count in (1, 7, _EXTREME_ROWS)
    )


class CodeMatrix:
    """Public int8 codes `[m, d]` in the layout of one device. Products with any number of rows are exact."""

    def __init__(self, codes: torch.Tensor, device: torch.device) -> None:
        if codes.dtype != torch.int8 or codes.ndim != 2 or not 1 <= codes.shape[1] <= DIMENSION_MAX:
            raise ValueError("codes must be int8 [m, d]")
        self._int8 = device.type == "cpu" and _has_int8_units() and _int8_is_exact(codes.shape[1])
        kept = codes if self._int8 else codes.to(torch.float32)
        self._transposed = kept.to(device).contiguous().t()

    def dots(self, rows: torch.Tensor) -> torch.Tensor:
        """Return exact inner products of int8 `rows` `[n, d]` with every code: int32 `[n, m]`."""
        if self._int8:
            return torch._int_mm(rows, self._transposed)
        return (rows.to(torch.float32) @ self._transposed).to(torch.int32)

    def nearest(self, rows: torch.Tensor, count: int) -> torch.Tensor:
        """Return the `count` codes with the largest products for each row, ties by index: int64 `[n, count]`.

        The order within a row is undefined. The set is a function of the row alone. Shapes: int8 `rows` `[n, d]`,
        1 <= count <= m.
        """
        dots = self.dots(rows)
        size = dots.shape[1]
        best = dots.topk(min(count + 1, size), dim=1)
        found: torch.Tensor = best.indices[:, :count]
        if count < size:
            tied = (best.values[:, count - 1] == best.values[:, count]).nonzero()[:, 0]
            # topk does not define which of equal products it returns; these keys are all different
            keys = dots[tied].to(torch.int64) * size - torch.arange(size, device=dots.device)
            found[tied] = keys.topk(count, dim=1, sorted=False).indices
        return found

    def self_check(self) -> bool:
        """Whether the device's products are exact, including extreme codes.

        Exact products are the same in every batch, so row independence needs no further test. The check covers the
        arithmetic at sizes for which libraries choose different kernels.
        """
        return self._is_exact([self._check_rows(rows) for rows in (1, 3, 16, 33, 128)])

    def _check_rows(self, rows: int) -> torch.Tensor:
        dimension = self.dimension
        codes = torch.randint(-CODE_MAX, CODE_MAX + 1, (rows, dimension), dtype=torch.int64)
        # Codes have about unit length times the scale; the check stays inside the proven range.
        codes = (codes.double() * (code_scale(dimension) / codes.double().norm(dim=1, keepdim=True))).round()
        small: torch.Tensor = codes.clamp(-CODE_MAX, CODE_MAX).to(torch.int8)
        small[0] = 0
        small[0, :: max(1, dimension // 4)] = CODE_MAX  # the largest code, in as many places as the length allows
        return small

    def own_nbytes(self, codes: torch.Tensor) -> int:
        """The memory of this matrix besides that of the `codes` that it was made from."""
        is_shared = self._transposed.data_ptr() == codes.data_ptr()
        return 0 if is_shared else self._transposed.nbytes

    @property
    def dimension(self) -> int:
        return len(self._transposed)

    def is_exact_for(self, codes: torch.Tensor) -> bool:
        """Whether the device's products of these int8 rows are exact."""
        return self._is_exact([codes])

    def _is_exact(self, batches: Sequence[torch.Tensor]) -> bool:
        """Whether the device's products of each batch of int8 rows are exact.

        All products are computed, and a random combination of each row's products is compared: a wrong row passes with
        probability 2^-20 at most (Freivalds 1977). Computing them again would take seconds for the largest codebooks.
        """
        factors = torch.randint(_FACTOR_MAX, (self._transposed.shape[1],), dtype=torch.int64)
        combined = torch.zeros(self.dimension, dtype=torch.float64)  # exact: 127 * 2^20 for each of up to 2^26 codes
        for start in range(0, len(factors), _COMBINED_AT_ONCE):
            part = slice(start, start + _COMBINED_AT_ONCE)
            codes = self._transposed.t()[part]  # contiguous, which makes the conversion ten times faster
            combined += factors[part].to(torch.float64) @ codes.to("cpu", torch.float64)
        exact = combined.to(torch.int64)
        return all(
            torch.equal(
                self.dots(batch.to(self._transposed.device)).to("cpu", torch.int64) @ factors,
                batch.to("cpu", torch.int64) @ exact,
            )
            for batch in batches
        )


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
