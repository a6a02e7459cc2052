"""Exact randomised response and exact two-sided geometric noise, drawn for whole arrays.

Guarantee: both sample their stated distribution exactly, from the operating system's CSPRNG (`sampling`); every
outcome of positive probability can occur.
"""

from __future__ import annotations

import os
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from core.amounts import NANO
from core.mechanisms.sampling import IntArray, bernoulli_exp, uniform_indices

_WORD_BITS = 64
_EXACT_BITS_MAX = 1 << 16
_RATE_DENOMINATOR_MAX = 1 << 32


def randomised_response(codes: IntArray, *, size: int, epsilon_nano: int) -> IntArray:
    """Each code kept or replaced: k-ary randomised response (Kairouz, Bonawitz and Ramage 2016), exactly.

    Guarantee: epsilon-DP (local) for each entry separately: an entry stays with probability
    e^eps / (e^eps + size - 1) and else becomes one of the other `size - 1` codes, uniformly, so that any two inputs
    give any output with probabilities within e^eps of each other.

    Shapes: `codes` int64 `[n]` in 0..size-1; the answer likewise. Units: epsilon in nano.
    Raises: ValueError for a code outside the alphabet, a size outside 2..2^32, or epsilon_nano < 1.
    """
    if not 2 <= size <= 1 << 32 or epsilon_nano < 1:
        raise ValueError("the alphabet must hold 2 to 2^32 codes and epsilon be positive")
    codes = np.asarray(codes, dtype=np.int64)
    if codes.size and (codes.min() < 0 or codes.max() >= size):
        raise ValueError("a code lies outside the alphabet")
    threshold = _keep_threshold(size, epsilon_nano, _WORD_BITS)
    words = np.frombuffer(os.urandom(8 * len(codes)), dtype=np.uint64)
    kept = words < np.uint64(threshold)
    for i in np.flatnonzero(words == np.uint64(threshold)):
        kept[i] = _exactly_kept(int(words[i]), size, epsilon_nano)
    others = uniform_indices(len(codes), size - 1)
    others += others >= codes  # the codes but one's own, in order
    return np.where(kept, codes, others)


def _exactly_kept(word: int, size: int, epsilon_nano: int) -> bool:
    """Is U below the probability of staying, where `word` holds the first 64 bits of the uniform U?

    U and the probability are extended together until they differ, which each doubling leaves open with probability
    2^-bits. Raises RuntimeError after 2^16 bits.
    """
    bits, uniform = _WORD_BITS, word
    while bits < _EXACT_BITS_MAX:
        uniform = (uniform << bits) | int.from_bytes(os.urandom(bits // 8), "little")
        bits *= 2
        threshold = _keep_threshold(size, epsilon_nano, bits)
        if uniform != threshold:
            return uniform < threshold
    raise RuntimeError("the random generator of the operating system returned a degenerate stream")


@lru_cache(maxsize=1024)
def _keep_threshold(size: int, epsilon_nano: int, bits: int) -> int:
    """floor(2^bits / (1 + (size - 1) e^-eps)), exactly: digits are added until both ends of an enclosure agree.

    The value is irrational (e^-eps is transcendental for a rational eps > 0), so they will.
    """
    digits = bits * 302 // 1000 + 30
    while True:
        limits: dict[str, Any] = {"prec": digits, "Emin": -999999999999999999, "Emax": 999999999999999999}
        down, up = Context(rounding=ROUND_FLOOR, **limits), Context(rounding=ROUND_CEILING, **limits)
        epsilon = Decimal(epsilon_nano).scaleb(-9, down)  # exact: 19 digits at most
        # `Decimal.exp` is correctly rounded (half even) whatever the context: one unit more on both sides
        minus = epsilon.copy_negate()
        falling = down.next_minus(down.exp(minus)), up.next_plus(up.exp(minus))
        least = up.add(1, up.multiply(size - 1, falling[1]))
        most = down.add(1, down.multiply(size - 1, falling[0]))
        whole = Decimal(1 << bits)
        low, high = int(down.divide(whole, least)), int(up.divide(whole, most))
        if low == high:
            return low
        if high == 1 << bits and low == high - 1 and digits > 2 * bits + 60:
            return low  # the value is below 2^bits, however near
        digits *= 2


def two_sided_geometric(count: int, *, epsilon_nano: int, sensitivity: int) -> IntArray:
    """`count` independent integers with P(z) proportional to exp(-eps |z| / sensitivity), exactly: int64 `[count]`.

    Guarantee: added to integers that together move by at most `sensitivity` in L1 norm between neighbours, they make
    the sum epsilon-DP (Ghosh, Roughgarden and Sundararajan 2009, the geometric mechanism).

    The difference of two independent geometric variables G with P(G >= g) = q^g has this law with q = exp(-eps /
    sensitivity). G of rate s/t is floor(X / s) of a geometric X of rate 1/t, and X = U + t V with V geometric of rate
    1, U on 0..t-1 with weights exp(-U/t) (Canonne, Kamath and Steinke 2020, Algorithm 2).

    Units: epsilon in nano. Raises: ValueError for epsilon_nano < 1 or a sensitivity outside 1..4.
    """
    bound = sensitivity * NANO
    if epsilon_nano < 1 or sensitivity < 1 or bound > _RATE_DENOMINATOR_MAX:
        raise ValueError("epsilon must be positive and the sensitivity an integer between 1 and 4")
    both = _geometric(2 * count, epsilon_nano, bound)
    return both[:count] - both[count:]


def _geometric(count: int, numerator: int, denominator: int) -> IntArray:
    """Independent integers with P(G >= g) = exp(-g numerator / denominator)."""
    remainder = np.zeros(count, dtype=np.int64)
    open_ = np.arange(count)
    while len(open_):
        proposed = uniform_indices(len(open_), denominator)
        accepted = bernoulli_exp(proposed, denominator)
        remainder[open_[accepted]] = proposed[accepted]
        open_ = open_[~accepted]
    whole = np.zeros(count, dtype=np.int64)
    open_ = np.arange(count)
    while len(open_):
        open_ = open_[bernoulli_exp(np.ones(len(open_), dtype=np.int64), 1)]
        whole[open_] += 1
    return (remainder + denominator * whole) // numerator
