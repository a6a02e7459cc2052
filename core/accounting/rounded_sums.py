"""Upper bounds on E (X_1 + ... + X_n)_+ for independent random variables, from laws that are rounded upwards.

Guarantee: for independent X_i with a law that `law` bounds (see `Law`), `total(law, n).positive_part` is at least E
(X_1 + ... + X_n)_+.

A law is defined on the grid {0, +-e^(spacing k)}. The grid is fine near zero, where the kink is, and has a constant
relative spacing elsewhere. A value between two grid points becomes a random choice of the two with the same mean. This
makes a law larger in convex order, and sums of independent variables preserve that order (Shaked and Shanthikumar 2007,
Theorem 3.A.12). The grid is closed under scaling, so the position of a sum between two grid points depends only on the
difference of the two indices. A value below the lowest grid value becomes a choice of that and zero. A value below the
range of the grid is raised to its end, which can only increase the result. The excess of a value above the range is cut
off, and its mean is added to `cut`: (a + b)_+ <= a_+ + b for b >= 0.

All numbers that are added and multiplied are non-negative, so rounding errors are relative. For a sum of n variables
`positive_part` adds RELATIVE_ERROR * n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

RELATIVE_ERROR = 1e-11  # for each term: some thousand additions with an error of 2^-53 each


@dataclass(frozen=True)
class Grid:
    """Zero and the values +-e^(spacing (lowest + i)) for i in 0..size-1."""

    spacing: float
    lowest: int
    size: int

    @property
    def values(self) -> Array:
        """The positive values, ascending: `[size]`."""
        found: Array = np.exp(self.spacing * (self.lowest + np.arange(self.size)))
        return found


@dataclass(frozen=True)
class Law:
    """G laws on one grid. One bounds X if E phi(X) <= E phi(law) + cut for every increasing convex phi of slope <= 1.

    `sides` `[2, G, size]`: the masses at positive and at negative values. `zero` `[G]`: the masses at zero. `cut`:
    `[G]`. `terms`: the number of variables in the sum.
    """

    grid: Grid
    sides: Array
    zero: Array
    cut: Array
    terms: int = 1

    @property
    def positive_part(self) -> Array:
        """Return an upper bound on E (X)_+, `[G]`."""
        found: Array = (self.sides[0] @ self.grid.values + self.cut) * (1 + RELATIVE_ERROR * self.terms)
        return found


def total(law: Law, count: int) -> Law:
    """Return the law of the sum of `count` independent variables. Raises ValueError if `count` is below 1."""
    if count < 1:
        raise ValueError("a sum has at least one term")
    found: Law | None = None
    while True:
        if count & 1:
            found = law if found is None else _added(found, law)
        count >>= 1
        if not count:
            return found or law
        law = _added(law, law)


def _added(one: Law, two: Law) -> Law:
    spacing, size = one.grid.spacing, one.grid.size
    a, b = one.sides, two.sides
    below = 1 - _place(math.log(-math.expm1(-spacing)), spacing)[0]  # the largest decrease of an index
    above = 1 + _place(math.log(2.0), spacing)[0]
    out = np.zeros((*a.shape[:2], below + size + above))
    for gap in range(size):
        # the larger value first, then the smaller one, with the same sign and with the opposite sign
        for c, d, sign in ((a, b, 1.0), (a[::-1], b[::-1], -1.0))[: 2 if gap else 1]:
            mass = a[..., gap:] * d[..., : size - gap]
            if gap:
                mass = 2 * mass if one is two else mass + b[..., gap:] * c[..., : size - gap]
            index, upper = _place(math.log1p(sign * math.exp(-gap * spacing)), spacing)
            start = below + gap + index
            raised = upper * mass
            out[..., start + 1 : start + 1 + size - gap] += raised
            out[..., start : start + size - gap] += mass - raised
    zero = one.zero * two.zero + (a * b[::-1]).sum(axis=(0, 2))
    out[..., below : below + size] += a * two.zero[:, None] + b * one.zero[:, None]
    return _folded(Law(one.grid, out, zero, one.cut + two.cut, one.terms + two.terms), below)


def _place(log_value: float, spacing: float) -> tuple[int, float]:
    """Return the index of the grid point below a value, and the weight of the point above that keeps the mean."""
    index = math.floor(log_value / spacing)
    return index, min(1.0, max(0.0, math.expm1(log_value - index * spacing) / math.expm1(spacing)))


def _folded(law: Law, below: int) -> Law:
    """Move the masses below the grid and above its range onto the grid."""
    grid = law.grid
    under, sides, over = np.split(law.sides, [below, below + grid.size], axis=-1)
    shares = np.exp(grid.spacing * np.arange(-below, 0))
    sides[..., 0] += under @ shares
    sides[..., -1] += over.sum(axis=-1)
    excess = grid.values[-1] * np.expm1(grid.spacing * np.arange(1, over.shape[-1] + 1))
    zero = law.zero + (under @ (1 - shares)).sum(axis=0)
    return Law(grid, sides.copy(), zero, law.cut + over[0] @ excess, law.terms)
