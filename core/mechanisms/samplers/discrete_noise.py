"""Exact subset selection, randomised response, two-sided geometric and discrete Gaussian noise, for whole arrays.

Guarantee: all functions sample their stated distribution exactly, from the operating system's CSPRNG (`exact`). Every
outcome of positive probability can occur.
"""

import os
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from core.amounts import NANO
from core.mechanisms.samplers.exact import IntArray, bernoulli_exp, uniform_indices

_WORD = np.uint64
_WORD_BITS = 64
_EXACT_BITS_MAX = 1 << 16
_RATE_DENOMINATOR_MAX = 1 << 32
GAUSSIAN_SCALE_MAX = 1 << 20
_FAR = 90  # in scales: squares of smaller distances stay below 2^53


def randomised_response(codes: IntArray, *, size: int, epsilon_nano: int) -> IntArray:
    """Keep or replace each code by k-ary randomised response (Kairouz, Bonawitz and Ramage 2016), exactly.

    Guarantee: epsilon-DP (local) for each entry separately. An entry stays with probability
    e^eps / (e^eps + size - 1) and otherwise becomes one of the other `size - 1` codes, uniformly. Therefore any two
    inputs give any output with probabilities within a factor e^eps. This is `subset_selection` with subsets of one.

    Shapes: `codes` int64 `[n]` in 0..size-1; the result has the same form. Units: epsilon in nano.
    Raises: ValueError for a code outside the alphabet, a size outside 2..2^32, or epsilon_nano < 1.
    """
    return subset_selection(np.asarray(codes, dtype=np.int64)[:, None], size=size, epsilon_nano=epsilon_nano)


def subset_selection(subsets: IntArray, *, size: int, epsilon_nano: int) -> IntArray:
    """Return one code for each subset, a member or another code: subset selection (Ye and Barg 2018), exactly.

    Guarantee: epsilon-DP (local) for each row separately, for replacing its whole subset by any other of the same size.
    A row of n members gives a uniform member with probability n e^eps / (n e^eps + size - n), otherwise a uniform one
    of the other codes. So a member has probability e^eps / (n e^eps + size - n) and any other code
    1 / (n e^eps + size - n). The denominator is the same for every subset of n, so any two of them give any output
    with probabilities within a factor e^eps. n must therefore be public.

    Shapes: `subsets` int64 `[k, n]`, each row n different codes of 0..size-1 in any order, 1 <= n < size; the result is
    int64 `[k]`. Units: epsilon in nano.
    Raises: ValueError for a code outside the alphabet, a repeated code in a row, n outside 1..size-1, a size outside
    2..2^32, or epsilon_nano < 1.
    """
    if not 2 <= size <= 1 << 32 or epsilon_nano < 1:
        raise ValueError("the alphabet must hold 2 to 2^32 codes and epsilon be positive")
    subsets = np.sort(np.asarray(subsets, dtype=np.int64), axis=1)
    rows, members = subsets.shape
    if not 1 <= members < size:
        raise ValueError("a subset must have at least one member and leave out one code")
    if rows and (subsets[:, 0].min() < 0 or subsets[:, -1].max() >= size):
        raise ValueError("a code lies outside the alphabet")
    if (subsets[:, 1:] == subsets[:, :-1]).any():
        raise ValueError("a code is in a subset twice")
    threshold = _member_threshold(size, members, epsilon_nano, _WORD_BITS)
    words = np.frombuffer(os.urandom(_WORD_BITS // 8 * rows), dtype=_WORD)
    inside = words < _WORD(threshold)
    for i in np.flatnonzero(words == _WORD(threshold)):
        inside[i] = _exactly_inside(int(words[i]), size, members, epsilon_nano)
    chosen = subsets[np.arange(rows), uniform_indices(rows, members)]
    others = uniform_indices(rows, size - members)
    # the codes without the members, in order: the j-th member (from 0) is skipped by others >= member - j
    others += (subsets - np.arange(members) <= others[:, None]).sum(axis=1)
    return np.where(inside, chosen, others)


def _exactly_inside(word: int, size: int, members: int, epsilon_nano: int) -> bool:
    """Whether U is below the probability of a member, where `word` holds the first 64 bits of the uniform U.

    U and the probability are extended together until they differ. Each doubling leaves them equal with probability
    2^-bits. Raises RuntimeError after 2^16 bits.
    """
    bits, uniform = _WORD_BITS, word
    while bits < _EXACT_BITS_MAX:
        uniform = (uniform << bits) | int.from_bytes(os.urandom(bits // 8), "little")
        bits *= 2
        threshold = _member_threshold(size, members, epsilon_nano, bits)
        if uniform != threshold:
            return uniform < threshold
    raise RuntimeError("the random generator of the operating system returned a degenerate stream")


@lru_cache(maxsize=1024)
def _member_threshold(size: int, members: int, epsilon_nano: int, bits: int) -> int:
    """Return floor(2^bits n / (n + (size - n) e^-eps)), exactly, by adding digits until an enclosure is conclusive.

    This terminates because the value is irrational (e^-eps is transcendental for a rational eps > 0).
    """
    digits = bits * 302 // 1000 + 30
    while True:
        limits: dict[str, Any] = {"prec": digits, "Emin": -999999999999999999, "Emax": 999999999999999999}
        down, up = Context(rounding=ROUND_FLOOR, **limits), Context(rounding=ROUND_CEILING, **limits)
        epsilon = Decimal(epsilon_nano).scaleb(-9, down)  # exact: 19 digits at most
        # `Decimal.exp` rounds correctly (half even) whatever the context: widen both sides by one unit
        minus = epsilon.copy_negate()
        falling = down.next_minus(down.exp(minus)), up.next_plus(up.exp(minus))
        largest = up.add(members, up.multiply(size - members, falling[1]))
        smallest = down.add(members, down.multiply(size - members, falling[0]))
        whole = Decimal(members << bits)
        low, high = int(down.divide(whole, largest)), int(up.divide(whole, smallest))
        if low == high:
            return low
        if high == 1 << bits and low == high - 1 and digits > 2 * bits + 60:
            return low  # the value is below 2^bits, however close
        digits *= 2


def two_sided_geometric(count: int, *, epsilon_nano: int, sensitivity: int) -> IntArray:
    """Return `count` independent integers with P(z) proportional to exp(-eps |z| / sensitivity), exactly.

    Shapes: int64 `[count]`.
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


def discrete_gaussian(count: int, *, scale: int) -> IntArray:
    """Return `count` independent integers with P(z) proportional to exp(-z^2 / (2 scale^2)): int64 `[count]`.

    Guarantee: exact, except that |z| is limited to 91 scales, beyond which the law has less than e^-4000.
    `core.synthesis.pricing` states the privacy guarantee.

    A two-sided geometric Y of rate 1/scale is accepted with probability exp(-(|Y| - scale)^2 / (2 scale^2)), since
    |y|/scale + (|y| - scale)^2 / (2 scale^2) = y^2 / (2 scale^2) + 1/2 (Canonne, Kamath and Steinke 2020, Algorithm 3,
    at t = sigma). Three of four are accepted.

    Raises: ValueError for a scale outside 1..2^20.
    """
    if not 1 <= scale <= GAUSSIAN_SCALE_MAX:
        raise ValueError("the scale must be an integer between 1 and 2^20")
    kept: list[IntArray] = []
    missing = count
    while missing > 0:
        both = _geometric(2 * missing, 1, scale)
        proposed = both[:missing] - both[missing:]
        off = np.abs(np.abs(proposed) - scale)
        near = off <= _FAR * scale
        proposed, off = proposed[near], off[near]
        accepted = proposed[bernoulli_exp(off * off, 2 * scale * scale)]
        kept.append(accepted)
        missing -= len(accepted)
    return np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)


def _geometric(count: int, numerator: int, denominator: int) -> IntArray:
    """Return independent integers with P(G >= g) = exp(-g numerator / denominator)."""
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
