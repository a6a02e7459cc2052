"""Continuous noise for whole arrays: a keyed AES stream, L2-Laplace vectors, and a public grid for released values.

Guarantee: every call of `noise_generator` starts its own stream, AES-128 in counter mode under a fresh key from the
operating system. No stream outlives its release, so two processes, forked or not, never share one. There is no seed.
Assumption: float64 stands for the real numbers (docs/KNOWN_LIMITATIONS.md).
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import numpy.typing as npt
from randomgen import AESCounter

FloatArray = npt.NDArray[np.float64]

_KEY_BYTES = 16
_GRID_BITS = 40
_TINY = 1e-300


def noise_generator() -> np.random.Generator:
    """Return a generator under a fresh key, for one call."""
    return np.random.Generator(AESCounter(key=int.from_bytes(os.urandom(_KEY_BYTES), "little")))


def add_l2_laplace(values: FloatArray, *, scale: float, generator: np.random.Generator) -> None:
    """Add to each row of `values` `[n, m]` a vector of density proportional to exp(-|z| / scale), in place.

    Guarantee: rows at Euclidean distance r become e^(r / scale)-indistinguishable. The direction is uniform, a normal
    vector over its length; the norm has the law Gamma(m, scale).
    """
    rows, dimension = values.shape
    noise = generator.standard_normal((rows, dimension))
    factors: FloatArray = np.maximum(row_norms(noise), _TINY)
    np.divide(scale * generator.standard_gamma(dimension, rows), factors, out=factors)
    noise *= factors[:, None]
    values += noise


def row_norms(values: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each row, `[n]`."""
    norms: FloatArray = np.sqrt(np.einsum("ij,ij->i", values, values))
    return norms


def scaled_rows(rows: npt.NDArray[np.floating[Any]]) -> FloatArray:
    """Divide each row `[n, d]` by a power of two, so that its largest coordinate lies in [1/2, 1).

    The direction is unchanged, and the squares neither overflow nor vanish. The result is exact, except for coordinates
    that are at most 2^-1000 of the largest. A zero row stays zero.
    """
    exact = rows.astype(np.float64)
    exponents = np.frexp(np.abs(exact).max(axis=1, keepdims=True))[1]
    scaled: FloatArray = np.ldexp(exact, -exponents)
    return scaled


def round_to_grid(values: FloatArray, *, scale: float) -> npt.NDArray[np.float32]:
    """Round `values` to multiples of the public grid of `scale` (`grid`), then to float32. The result may be released.

    Both steps depend only on the noisy numbers. The grid removes the last binary digits of a float64 sum, which would
    reveal the noise's own lattice (Mironov 2012).
    """
    step = grid(scale)
    values *= 1.0 / step
    np.rint(values, out=values)
    values *= step
    return values.astype(np.float32)


def grid(scale: float) -> float:
    """Return the smallest power of two that is at least scale / 2^40."""
    mantissa, exponent = math.frexp(scale)
    return math.ldexp(1.0, exponent - _GRID_BITS - (mantissa == 0.5))
