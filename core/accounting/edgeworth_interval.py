"""Bounds the distance between an order-1 Edgeworth expansion of an iid sum and its distribution function.

Derumigny, Girard and Guyonvarch 2021, "Explicit non-asymptotic bounds for the distance to the first-order Edgeworth
expansion", for the case without a continuity assumption. `docs/concepts/accounting.md` lists constants and conditions.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc

from core.accounting.moments import Side

Array = npt.NDArray[np.float64]

_A = np.linspace(0.005, 0.33, 66)


def _upper_gamma(shape: float, at: Array) -> Array:
    result: Array = math.gamma(shape) * gammaincc(shape, at)
    return result


@lru_cache(maxsize=4096)
def edgeworth_error(side: Side, count: int) -> float:
    """Return an upper bound on sup |F - (order-1 expansion)| for a sum of `count` iid privacy losses, maybe infinite.

    Assumes iid summands with a fourth moment. Every free parameter `a` in (0, 1/3) is valid; the result is the least
    bound over a grid of them.
    """
    n = float(count)
    lam, k3, k4 = abs(side.skewness), side.absolute_3, side.kurtosis
    kt = k3 + side.absolute_1
    with np.errstate(over="ignore", invalid="ignore"):
        total = _bound(n, lam, k3, k4, kt)
    total = total[np.isfinite(total)]
    return float(total.min()) if total.size else math.inf


def _bound(n: float, lam: float, k3: float, k4: float, kt: float) -> Array:
    a = _A
    root = math.sqrt(n)
    d = (1 - 3 * a) ** 2
    h = 2 * root / kt
    low = np.minimum(np.sqrt(2 * a) * (n / k4) ** 0.25, h)
    p = (
        48 * a * math.sqrt(k4 / n)
        + 4 * a**2 * k4 / n
        + 96 * np.sqrt(2 * a) * lam / (k4 * n) ** 0.25
        + 32 * a * lam**2 / math.sqrt(k4 * n)
        + 16 * math.sqrt(2) * k4**0.25 * lam * a**1.5 / n**0.75
    )
    e2 = np.exp(a**2 * (1 / 6 + 1 / (2 * d) + p / (288 * d)))
    e3 = np.exp(a**2 / 6 + a**2 / (4 * d))
    b = k4 / 12 + 1 / (4 * d) + p / (576 * d)
    main: Array = (
        0.1995 * kt / root
        + (0.031 * kt**2 + 0.327 * k4 * (1 / 12 + 1 / (4 * d)) + 0.054 * lam * kt + 0.037 * e3 * lam**2) / n
    )
    flat = 81.2376 * kt**4 / (16 * math.pi**4 * n**2) + 4.3394 * lam * kt**3 / (8 * math.pi**3 * n**2)
    rest = flat + _tail(n, lam, k4, d, e2, b) + 1.306 * (e2 - e3) * lam**2 / (36 * n)
    high = np.full_like(a, h)
    rest += lam * (_upper_gamma(1.5, low) - _upper_gamma(1.5, high)) / root
    middle = _upper_gamma(1.5, low**2 / 8) - _upper_gamma(1.5, high**2 / 8)
    rest += 1.0253 * 2**2.5 * k3 * middle / (3 * math.pi * root)
    result: Array = main + rest
    return result


def _tail(n: float, lam: float, k4: float, d: Array, e2: Array, b: Array) -> Array:
    g = math.gamma
    first = (
        math.sqrt(2) * g(1.5) * lam / (6 * n**1.5)
        + 8 * g(4) * k4 / (24 * n**2)
        + 8 * g(4) * lam**2 / (36 * n**2)
        + 2**3.5 * g(4.5) * k4 * lam / (72 * n**2.5)
        + 16 * g(5) * k4**2 / (576 * n**3)
    )
    second = 16 * g(5) / (8 * n**2) + 2**3.5 * g(4.5) * lam / (12 * n**1.5)
    result: Array = 1.0253 / (2 * math.pi * d) * first + 1.0253 * e2 * b / math.pi * second
    return result
