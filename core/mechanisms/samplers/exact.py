"""Exact samplers over the operating system's CSPRNG.

Guarantee: every function in this module samples its stated distribution **exactly**: there is no float softmax and no
rounded probability, and every outcome of positive probability can occur. The only randomness is `os.urandom`, which
keeps no state in the process, so two forked workers never share a stream. There is no seed parameter.

Sampling a coin of bias exp(-x), x = n/d rational. Let U be uniform on [0, 1); accept iff U < exp(-x). The first 32 bits
w of U imply that U is in [w, w+1) / 2^32. A float64 enclosure lo <= exp(-x) <= hi decides nearly always:
accept if w + 1 <= 2^32 lo, reject if w >= 2^32 hi. In the remaining cases (about one in 2^32) `_exact_coin` extends
*the same* U by further bits and exp(-x) by further digits until they can be compared. The result is therefore that of
infinite precision for every valid enclosure.

Enclosure. With x' the float64 value of n/d and y = min(x', 700), `numpy.exp(-y)` is assumed to be within 2^-40
(relative) of exp(-min(x, 700)). n and d are integers below 2^53 or correctly rounded from larger ones, and products
and the quotient round once each, so |x' - x| <= 5 * 2^-53 x, which moves exp(-x) by a factor of at most
exp(700 * 5 * 2^-53) < 1 + 2^-41. That leaves 2^-41, some 2,000 units in the last place, for the exponential
itself (NumPy's tests allow only a few). For x >= 700 the same number is still an upper bound, and lo = 0.

Timing is not hidden: the exact step adds microseconds to one coin in 2^32, and the number of rounds of
`exponential_mechanism` (1 to 1.6 on average) depends on the scores.
"""

import os
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from core.amounts import NANO

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
WordArray = npt.NDArray[np.uint32]

_WORD_BITS = 32
_TWO_WORD = 2.0**_WORD_BITS
_RELATIVE_ERROR = 2.0**-40
_X_CLIP = 700.0
_EXACT_BITS_MAX = 1 << 16
_FLOAT_EXACT_MAX = 1 << 53


def random_words(count: int) -> WordArray:
    """Return `count` independent uniform 32-bit words from the operating system."""
    return np.frombuffer(os.urandom(4 * count), dtype=np.uint32)


def uniform_below(bound: int) -> int:
    """Return an exactly uniform integer in [0, bound), by rejection. Raises ValueError for bound < 1."""
    if bound < 1:
        raise ValueError("the bound must be at least 1")
    bits = (bound - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        value = int.from_bytes(os.urandom(size), "little") & ((1 << bits) - 1)
        if value < bound:
            return value


def uniform_indices(count: int, bound: int) -> IntArray:
    """Return `count` independent exactly uniform integers in [0, bound), bound <= 2^32.

    A word is used iff it is below the largest multiple of the bound within 2^32. Its remainder is then exactly uniform.
    Raises ValueError outside 1..2^32.
    """
    if not 1 <= bound <= 1 << _WORD_BITS:
        raise ValueError("the bound must be between 1 and 2^32")
    usable = (1 << _WORD_BITS) // bound * bound
    kept: list[npt.NDArray[np.uint64]] = []
    missing = count
    while missing > 0:
        words = random_words(missing).astype(np.uint64)
        words = words[words < usable]
        kept.append(words)
        missing -= len(words)
    if not kept:
        return np.zeros(0, dtype=np.int64)
    return (np.concatenate(kept) % np.uint64(bound)).astype(np.int64)


def _exact_coin(word: int, numerator: int, denominator: int) -> bool:
    """Whether U < exp(-numerator/denominator), where `word` holds the first 32 bits of the uniform U.

    Each round doubles the number of bits of U and compares its interval with an enclosure of exp(-x) of matching
    precision. `Decimal.exp` rounds correctly, and so does the division when rounded down or up. Both ends are widened
    by one unit in the last place. Raises RuntimeError after 2^16 bits, which happens with probability 2^-60000 unless
    the operating system's generator is broken.
    """
    if numerator == 0:
        return True
    bits = _WORD_BITS
    uniform = word
    while bits <= _EXACT_BITS_MAX:
        uniform = (uniform << bits) | int.from_bytes(os.urandom(bits // 8), "little")
        bits *= 2
        # U has `bits` bits, about 0.302 digits each; exp(-x) additionally needs the digits of x.
        digits = bits * 302 // 1000 + len(str(numerator)) + 10
        limits: dict[str, Any] = {"prec": digits, "Emin": -999999999999999999, "Emax": 999999999999999999}
        down = Context(rounding=ROUND_FLOOR, **limits)
        up = Context(rounding=ROUND_CEILING, **limits)
        top, bottom = Decimal(numerator), Decimal(denominator)
        # copy_negate, because a unary minus would round to the thread's own context
        exp_low = down.next_minus(down.exp(up.divide(top, bottom).copy_negate()))
        exp_high = up.next_plus(up.exp(down.divide(top, bottom).copy_negate()))
        scale = Decimal(1 << bits)
        # The products are rounded outwards, so both comparisons are conservative.
        if Decimal(uniform + 1) <= down.multiply(exp_low, scale):
            return True
        if Decimal(uniform) >= up.multiply(exp_high, scale):
            return False
    raise RuntimeError("the random generator of the operating system returned a degenerate stream")


def _decide(words: WordArray, x: npt.NDArray[np.float64]) -> tuple[BoolArray, BoolArray]:
    """Return (accepted, undecided) for coins of bias exp(-x) whose uniforms start with `words` (module docstring)."""
    bias = np.exp(-np.minimum(x, _X_CLIP)) * _TWO_WORD
    low = np.where(x < _X_CLIP, bias * (1.0 - _RELATIVE_ERROR), 0.0)
    accepted: BoolArray = words + 1.0 <= low  # uint32 + float64: exact below 2^53
    undecided: BoolArray = (words < bias * (1.0 + _RELATIVE_ERROR)) & ~accepted
    return accepted, undecided


def _coins(gaps: IntArray, rate_numerator: int, rate_denominator: int) -> BoolArray:
    """Return independent Bernoulli(exp(-gap * rate)) for integers gap >= 0 and the rational rate >= 0."""
    x: npt.NDArray[np.float64] = gaps.astype(np.float64) * (float(rate_numerator) / float(rate_denominator))
    words = random_words(len(gaps))
    accepted, undecided = _decide(words, x)
    for i in np.flatnonzero(undecided):
        accepted[i] = _exact_coin(int(words[i]), int(gaps[i]) * rate_numerator, rate_denominator)
    return accepted


def bernoulli_exp(numerators: IntArray, denominator: int) -> BoolArray:
    """Return independent coins of bias exp(-numerators / denominator), exactly.

    Shapes: `numerators` int64 `[m]`, 0 <= numerator < 2^53; the result is bool `[m]`.
    Raises: ValueError for a negative or too large numerator or a denominator < 1.
    """
    values = np.asarray(numerators, dtype=np.int64)
    if denominator < 1 or (values.size and (values.min() < 0 or values.max() >= _FLOAT_EXACT_MAX)):
        raise ValueError("numerators must lie in [0, 2^53) and the denominator be positive")
    return _coins(values, 1, denominator)


def _gaps(scores: npt.NDArray[np.integer[Any]], epsilon_nano: int, sensitivity: int) -> IntArray:
    """Return max(scores) - scores, after validation."""
    if scores.ndim != 1 or scores.size == 0 or not np.issubdtype(scores.dtype, np.integer):
        raise ValueError("scores must be a non-empty vector of integers")
    if epsilon_nano < 1 or sensitivity < 1:
        raise ValueError("epsilon and the sensitivity must be positive")
    wide: IntArray = scores.astype(np.int64, copy=False)
    top, bottom = int(wide.max()), int(wide.min())
    if max(abs(top), abs(bottom)) >= _FLOAT_EXACT_MAX // 2:
        raise ValueError("scores must lie within 2^52 of zero")
    return top - wide


def permute_and_flip(scores: npt.NDArray[np.integer[Any]], *, epsilon_nano: int, sensitivity: int) -> int:
    """Return an index by permute-and-flip (McKenna and Sheldon 2020, Algorithm 1), sampled exactly.

    Guarantee: epsilon-DP if every score moves by at most `sensitivity` between neighbours (their Theorem 1).
    It is not bounded-range. Its expected score is never below that of the exponential mechanism.

    The algorithm iterates over a uniform random permutation and returns the first index whose coin of bias
    exp(eps (u_i - u_max) / (2 sensitivity)) shows heads. Coins and permutation are independent, so all coins may be
    sampled first: let B be the set of heads (never empty, the maximum has bias 1). The first element of B in a
    uniform permutation of all indices is uniform on B, since restricting a uniform permutation to B gives a uniform
    permutation of B. Hence the code samples every coin and chooses uniformly among the heads.

    Shapes: `scores` integer `[m]`, |score| < 2^52. Units: epsilon in nano. Raises: ValueError.
    """
    gaps = _gaps(scores, epsilon_nano, sensitivity)
    heads = np.flatnonzero(_coins(gaps, epsilon_nano, 2 * sensitivity * NANO))
    return int(heads[uniform_below(len(heads))])


def exponential_mechanism(scores: npt.NDArray[np.integer[Any]], *, epsilon_nano: int, sensitivity: int) -> int:
    """Return an index with probability proportional to exp(eps u_i / (2 sensitivity)), sampled exactly.

    Guarantee: epsilon-DP and epsilon-bounded-range if every score moves by at most `sensitivity` between
    neighbours (McSherry and Talwar 2007).

    Rejection sampling: propose i uniform on the m indices, accept with probability a_i = exp(eps (u_i - u_max) / (2
    sensitivity)), else repeat. P(i is returned) is proportional to (1/m) a_i, that is to the weight. Proposals
    are independent, so they are drawn m at a time and the first accepted one is returned. One proposal is accepted
    with probability at least 1/m (the maximum), a round of m with at least 1 - 1/e: at most 1.6 rounds are expected.

    Shapes: `scores` integer `[m]`, |score| < 2^52. Units: epsilon in nano. Raises: ValueError.
    """
    gaps = _gaps(scores, epsilon_nano, sensitivity)
    while True:
        proposals = uniform_indices(len(gaps), len(gaps))
        accepted = _coins(gaps[proposals], epsilon_nano, 2 * sensitivity * NANO)
        first = int(np.argmax(accepted))
        if accepted[first]:
            return int(proposals[first])
