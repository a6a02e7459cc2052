"""The steps between two linear layers of the integer encoder, compiled by numba.

Every function treats the rows (in `attention`, the sentences) from `first` to `end`, one by one. Its results are the
same numbers on every processor, because each step is one of these:

* an operation on integers that cannot overflow (`IntegerBert` checks the bounds);
* one addition, product, quotient, square root, comparison or conversion of floating-point numbers, in the order of the
  source. IEEE 754 determines its result, and without `fastmath` LLVM neither reorders nor fuses operations;
* a sum of products of whole numbers below 2^24 in float32 (`_combined`, `_total`). It is exact, so that its order and
  fused operations do not matter; `fastmath` permits both there, and nowhere else.

A whole number that a float32 holds is rounded by adding and subtracting 1.5 * 2^23.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float32]
Sums = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int8]
Starts = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int64]

VALUE_MAX = 2047  # of a value in `attention`
WEIGHTS_SUM = 4096  # of the weights of one token in `attention`, but for rounding
RESIDUAL_MAX = 2**20  # of what is added to a hidden state

_f4 = np.float32
_ROUNDER = _f4(1.5 * 2**23)
_ZERO, _HALF, _ONE = _f4(0), _f4(0.5), _f4(1)
_LOW, _HIGH = _f4(-128), _f4(127)
_VALUE = _f4(VALUE_MAX)
_SUM = _f4(WEIGHTS_SUM)
_RESIDUAL = _f4(RESIDUAL_MAX)
_FARTHEST = _f4(24.0)  # 2^-24 of the largest weight rounds to 0
_PARTS = _f4(-1 / 32)
# 2^x for x from -.75 to 0, by its Taylor series: the error is below 5e-5, and below .0014 after 5 squarings
_P5, _P4, _P3, _P2, _P1 = (_f4(math.log(2) ** k / math.factorial(k)) for k in (5, 4, 3, 2, 1))
# |x| erf(|x| / sqrt(2)) / 2 as a polynomial of x^2 for |x| <= 3.5, by Chebyshev nodes: the error is below 1.3e-4
_GELU_END = _f4(3.5)
_G0, _G1, _G2, _G3 = _f4(1.19822e-4), _f4(0.39820127), _f4(-0.065359516), _f4(0.0092327991)
_G4, _G5, _G6, _G7 = _f4(-9.2936066e-4), _f4(6.214224e-5), _f4(-2.444101e-6), _f4(4.2319364e-8)


@njit(nogil=True, cache=True, inline="always")
def _rounded(number: np.float32) -> np.float32:
    return (number + _ROUNDER) - _ROUNDER


@njit(nogil=True, cache=True)
def _scaled(sums: Sums, factor: Floats, offset: Floats, limit: np.float32, out: Floats) -> None:
    for i in range(len(out)):
        out[i] = min(max(_rounded(_f4(sums[i]) * factor[i] + offset[i]), -limit), limit)


@njit(nogil=True, cache=True)
def _as_int8(numbers: Floats, factor: Floats, offset: Floats, out: Rows) -> None:
    for i in range(len(factor)):
        out[i] = np.int8(min(max(_rounded(numbers[i] * factor[i] + offset[i]), _LOW), _HIGH))


@njit(nogil=True, cache=True)
def _copy(row: Rows, width: int, copies: Columns) -> None:
    """Append the components that are there more than once."""
    for i in range(len(copies)):
        row[width + i] = row[copies[i]]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _combined(weights: Floats, rows: Floats, blocks: int, width: int, out: Floats) -> None:
    """The sum of `rows` `[blocks, 8, width]` times `weights` `[blocks, 8]`. All are whole; every sum is below 2^24."""
    for j in range(width):
        out[j] = _ZERO
    for k in range(blocks):
        w0, w1, w2, w3 = weights[k, 0], weights[k, 1], weights[k, 2], weights[k, 3]
        w4, w5, w6, w7 = weights[k, 4], weights[k, 5], weights[k, 6], weights[k, 7]
        for j in range(width):
            out[j] += ((w0 * rows[k, 0, j] + w1 * rows[k, 1, j]) + (w2 * rows[k, 2, j] + w3 * rows[k, 3, j])) + (
                (w4 * rows[k, 4, j] + w5 * rows[k, 5, j]) + (w6 * rows[k, 6, j] + w7 * rows[k, 7, j])
            )


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def _total(numbers: Floats, count: int) -> np.float32:
    """The sum of whole numbers. It is below 2^24."""
    total = _ZERO
    for i in range(count):
        total += numbers[i]
    return total


@njit(nogil=True, cache=True)
def _weights(scores: Floats, count: int, padded: int, unit: np.float32, out: Floats) -> None:
    """The softmax of the scores times `unit`, to the base 2, as whole numbers whose sum is near `WEIGHTS_SUM`."""
    highest = scores[0]
    for i in range(count):
        highest = max(highest, scores[i])
    for i in range(padded):
        x = min(max((highest - scores[i]) * unit, _ZERO), _FARTHEST) * _PARTS
        power = ((((_P5 * x + _P4) * x + _P3) * x + _P2) * x + _P1) * x + _ONE
        for _ in range(5):
            power = power * power
        out[i] = _rounded(power * _SUM)
    share = _SUM / _total(out, count)
    for i in range(padded):
        out[i] = _rounded(out[i] * share)
    for i in range(count, padded):
        out[i] = _ZERO


@njit(nogil=True, cache=True)
def attention(
    sums: Sums,
    factor: Floats,
    offset: Floats,
    unit: np.float32,
    heads: int,
    limit: np.float32,
    starts: Starts,
    out_factor: Floats,
    out_offset: Floats,
    copies: Columns,
    out: Rows,
    first: int,
    end: int,
) -> None:
    """Attention inside each sentence.

    `sums`: int32 `[tokens, 3 width]`, the products of queries, keys and values. `factor`, `offset`: what makes them
    whole numbers, at most `limit` for queries and keys and `VALUE_MAX` for values. `unit`: of a product of a query and
    a key, in the exponent to the base 2. `starts`: where each sentence begins, and the end of the last. `out`: int8
    `[tokens, width + copies]`.
    """
    width = len(out_factor)
    size = width // heads
    longest = 0
    for sentence in range(first, end):
        longest = max(longest, starts[sentence + 1] - starts[sentence])
    padded_max = (longest + 15) // 16 * 16
    numbers = np.empty((longest, 3 * width), np.float32)
    keys = np.zeros((size // 8, 8, padded_max), np.float32)
    values = np.zeros((padded_max // 8, 8, size), np.float32)
    scores = np.empty(padded_max, np.float32)
    weights = np.empty(padded_max, np.float32)
    weights_by_8 = weights.reshape(padded_max // 8, 8)
    for sentence in range(first, end):
        start = starts[sentence]
        count = starts[sentence + 1] - start
        padded = (count + 15) // 16 * 16
        for i in range(count):
            _scaled(
                sums[start + i, : 2 * width],
                factor[: 2 * width],
                offset[: 2 * width],
                limit,
                numbers[i, : 2 * width],
            )
            _scaled(
                sums[start + i, 2 * width :], factor[2 * width :], offset[2 * width :], _VALUE, numbers[i, 2 * width :]
            )
        for head in range(heads):
            query = head * size
            key = width + query
            value = 2 * width + query
            for i in range(count):
                row = numbers[i]
                for j in range(size):
                    keys[j // 8, j % 8, i] = row[key + j]
                for j in range(size):
                    values[i // 8, i % 8, j] = row[value + j]
            for i in range(count):
                own = numbers[i, query : query + size]
                _combined(own.reshape(size // 8, 8), keys, size // 8, padded, scores)
                _weights(scores, count, padded, unit, weights)
                _combined(weights_by_8, values, (count + 7) // 8, size, own)  # what was the query is not read again
        for i in range(count):
            _as_int8(numbers[i, :width], out_factor, out_offset, out[start + i])
            _copy(out[start + i], width, copies)


@njit(nogil=True, cache=True)
def add_and_norm(
    sums: Sums,
    factor: Floats,
    offset: Floats,
    hidden: Sums,
    weight: Floats,
    bias: Floats,
    eps: float,
    out_factor: Floats,
    out_offset: Floats,
    copies: Columns,
    out: Rows,
    first: int,
    end: int,
) -> None:
    """Add the products, int32 `[tokens, width]`, to the hidden states, int32, and replace these by their layer norm.
    `out`: the same for the next layer, int8 `[tokens, width + copies]`. `eps`: in the unit of the squares that it is
    added to."""
    width = hidden.shape[1]
    row = np.empty(width, np.int32)
    for r in range(first, end):
        total = np.int64(0)
        squares = np.int64(0)
        for j in range(width):
            added = _rounded(_f4(sums[r, j]) * factor[j] + offset[j])
            row[j] = hidden[r, j] + np.int32(min(max(added, -_RESIDUAL), _RESIDUAL))
        for j in range(width):
            total += row[j]
        for j in range(width):
            squares += row[j] * row[j]
        inverse = _f4(1.0 / math.sqrt(np.float64(width * squares - total * total) + eps))
        mean = total // width
        scale = _f4(width) * inverse
        shift = _f4(total - mean * width) * inverse
        for j in range(width):
            normed = _rounded((_f4(row[j] - mean) * scale - shift) * weight[j] + bias[j])
            hidden[r, j] = np.int32(normed)
            out[r, j] = np.int8(min(max(_rounded(normed * out_factor[j] + out_offset[j]), _LOW), _HIGH))
        _copy(out[r], width, copies)


@njit(nogil=True, cache=True)
def gelu(
    sums: Sums,
    factor: Floats,
    offset: Floats,
    out_factor: Floats,
    out_offset: Floats,
    copies: Columns,
    out: Rows,
    first: int,
    end: int,
) -> None:
    """GELU of the products, int32 `[tokens, width]`, as int8 `[tokens, width + copies]`."""
    width = len(factor)
    for r in range(first, end):
        for j in range(width):
            x = _f4(sums[r, j]) * factor[j] + offset[j]
            near = min(max(x, -_GELU_END), _GELU_END)
            u = near * near
            even = ((((((_G7 * u + _G6) * u + _G5) * u + _G4) * u + _G3) * u + _G2) * u + _G1) * u + _G0
            if abs(x) >= _GELU_END:
                even = _HALF * abs(x)
            result = _rounded((_HALF * x + even) * out_factor[j] + out_offset[j])
            out[r, j] = np.int8(min(max(result, _LOW), _HIGH))
        _copy(out[r], width, copies)


@njit(nogil=True, cache=True)
def mean(hidden: Sums, starts: Starts, out: Floats, first: int, end: int) -> None:
    """The unit vector of the sum of each sentence's hidden states, float32 `[sentences, width]`."""
    width = hidden.shape[1]
    sums = np.empty(width, np.int64)
    for sentence in range(first, end):
        for j in range(width):
            sums[j] = 0
        for r in range(starts[sentence], starts[sentence + 1]):
            for j in range(width):
                sums[j] += hidden[r, j]
        squares = np.float64(0)
        for j in range(width):
            squares += np.float64(sums[j]) * np.float64(sums[j])
        length = math.sqrt(max(squares, 1.0))
        for j in range(width):
            out[sentence, j] = _f4(np.float64(sums[j]) / length)
