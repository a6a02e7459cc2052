"""The steps between two linear layers of the integer encoder, compiled by numba.

Every function treats rows one by one, and `attention` and `mean` sentences. The results are the same numbers on every
processor, because each step is one of these:

* an operation on integers that cannot overflow (`IntegerBert` checks the bounds), such as the maximum of a row;
* one addition, product, quotient, square root, comparison or conversion of floating-point numbers, in the order of the
  source. IEEE 754 determines its result, and without `fastmath` LLVM neither reorders nor fuses operations;
* a sum of whole numbers, or of their products, at most 2^24 in float32 (`tile`, `_weights`). It is exact, so that its
  order and fused operations do not matter. Only `tile` uses them.

All of it is in one file: numba keeps compiled functions, and compiles one again only when its own file has changed.

A whole number that a float32 holds is rounded by adding and subtracting 1.5 * 2^23.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

Floats = npt.NDArray[np.float32]
Sums = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int8]
Starts = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int64]
Whole = npt.NDArray[np.int32]

ROWS, COLUMNS = 4, 16  # of a tile
VALUE_MAX = 2047  # of a value in `attention`
WEIGHTS_SUM = 4096  # of the weights of one token in `attention`, but for rounding
RESIDUAL_MAX = 2**20  # of what is added to a hidden state

_f4 = np.float32
_ROUNDER = _f4(1.5 * 2**23)
_ZERO, _HALF, _ONE = _f4(0), _f4(0.5), _f4(1)
_HIGH, _SPREAD, _HALF_SPREAD = _f4(127), _f4(255), _f4(128)  # of int8
_SMALLEST = _f4(1e-6)  # of the largest number of a row
_SIGN_OFF = np.int32(0x7FFFFFFF)
_VALUE = _f4(VALUE_MAX)
_SUM = _f4(WEIGHTS_SUM)
_RESIDUAL = _f4(RESIDUAL_MAX)
_FARTHEST = _f4(24.0)  # 2^-24 of the largest weight rounds to 0
_PARTS = _f4(-1 / 32)
_COLUMNS_TOGETHER = 384  # of scores, so that those of a short sentence's heads are in a near cache
# 2^x for x from -.75 to 0, by its Taylor series: the error is below 5e-5, and below .0014 after 5 squarings
_P1, _P2, _P3 = _f4(0.6931472), _f4(0.2402265), _f4(0.05550411)
_P4, _P5 = _f4(0.009618129), _f4(0.0013333558)
# |x| erf(|x| / sqrt(2)) / 2 as a polynomial of x^2 for |x| <= 3.5, by Chebyshev nodes: the error is below 1.3e-4
_GELU_END = _f4(3.5)
_G0, _G1, _G2, _G3 = _f4(1.19822e-4), _f4(0.39820127), _f4(-0.065359516), _f4(0.0092327991)
_G4, _G5, _G6, _G7 = _f4(-9.2936066e-4), _f4(6.214224e-5), _f4(-2.444101e-6), _f4(4.2319364e-8)


@njit(nogil=True, cache=True, inline="always")
def _rounded(number: np.float32) -> np.float32:
    return (number + _ROUNDER) - _ROUNDER


@njit(nogil=True, cache=True)
def _scaled(sums: Sums, scale: np.float32, factor: Floats, offset: Floats, limit: np.float32, out: Floats) -> None:
    for i in range(len(out)):
        out[i] = min(max(_rounded(_f4(sums[i]) * factor[i] * scale + offset[i]), -limit), limit)


@njit(nogil=True, cache=True)
def _largest(numbers: Floats) -> np.float32:
    """The largest absolute value, at least `_SMALLEST`. Without its sign, a float32 has the order of its bits, whose
    maximum the compiler computes in vectors."""
    bits = numbers.view(np.int32)
    largest = np.int32(0)
    for i in range(len(bits)):
        largest = np.int32(max(largest, bits[i] & _SIGN_OFF))
    return max(np.int32(largest).view(np.float32), _SMALLEST)


@njit(nogil=True, cache=True)
def _as_int8(numbers: Floats, spread: np.float32, below: np.float32, copies: Columns, out: Rows) -> np.float32:
    """Write the numbers in units of their largest one over `spread`, less `below`, and then those that are there more
    than once. Return the unit."""
    width = len(numbers)
    largest = _largest(numbers)
    inverse = spread / largest
    for i in range(width):
        out[i] = np.int8(_rounded(numbers[i] * inverse) - below)
    for i in range(len(copies)):
        out[width + i] = out[copies[i]]
    return largest / spread


@intrinsic
def tile(_typing: Any, left: Any, right: Any, out: Any, positions: Any) -> Any:
    """Set `out[to + r out_width + c]` to the sum over k of `left[at + r row_step + k step] right[own + k width + c]`.

    k is below `count`, r below `ROWS` and c below `COLUMNS`. `positions`: `at`, `row_step`, `step`, `own`, `width`,
    `count`, `to` and `out_width`, int64. The arrays are float32 and contiguous; the positions count their numbers from
    the first one and are not checked. All numbers are whole and every sum is at most 2^24, so that the result is exact,
    with fused operations and without them.
    """

    if any(array.dtype != types.float32 or array.layout != "C" for array in (left, right, out)):
        raise TypingError("a tile takes contiguous arrays of float32")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def data(i: int) -> Any:
            return context.make_array(signature.args[i])(context, builder, arguments[i]).data

        left, right, out = data(0), data(1), data(2)
        at, row_step, step, own, width, count, to, out_width = cgutils.unpack_tuple(  # type: ignore[no-untyped-call]
            builder, arguments[3]
        )
        vector = ir.VectorType(ir.FloatType(), COLUMNS)
        zero = ir.Constant(vector, [0.0] * COLUMNS)
        fused = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{COLUMNS}f32"
        )
        sums = [cgutils.alloca_once(builder, vector) for _ in range(ROWS)]  # type: ignore[no-untyped-call]
        for held in sums:
            builder.store(zero, held)

        def vector_at(array: Any, position: Any) -> Any:
            return builder.bitcast(builder.gep(array, [position]), vector.as_pointer())

        with cgutils.for_range(builder, count) as loop:
            numbers = builder.load(vector_at(right, builder.add(own, builder.mul(loop.index, width))), align=4)
            place = builder.add(at, builder.mul(loop.index, step))
            for held in sums:
                factor = builder.load(builder.gep(left, [place]))
                first = builder.insert_element(ir.Constant(vector, ir.Undefined), factor, ir.IntType(32)(0))
                lanes = ir.Constant(ir.VectorType(ir.IntType(32), COLUMNS), [0] * COLUMNS)
                factors = builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), lanes)
                builder.store(builder.call(fused, [factors, numbers, builder.load(held)]), held)
                place = builder.add(place, row_step)
        for held in sums:
            builder.store(builder.load(held), vector_at(out, to), align=4)
            to = builder.add(to, out_width)
        return context.get_dummy_value()

    return types.void(left, right, out, positions), generate


@njit(nogil=True, cache=True)
def _product(
    left: Floats,
    at: int,
    row_step: int,
    step: int,
    rows: int,
    right: Floats,
    own: int,
    width: int,
    columns: int,
    count: int,
    out: Floats,
    to: int,
    out_width: int,
) -> None:
    """`tile` for `rows` and `columns`, rounded up to whole tiles."""
    for r in range(0, rows, ROWS):
        for c in range(0, columns, COLUMNS):
            tile(  # type: ignore[call-arg]  # the compiler passes the first one
                left,
                right,
                out,
                (at + r * row_step, row_step, step, own + c, width, count, to + r * out_width + c, out_width),
            )


@njit(nogil=True, cache=True)
def _highest(scores: Floats, count: int, out: Floats) -> None:
    width = len(out)
    for i in range(width):
        out[i] = scores[0, i]
    for k in range(1, count):
        row = scores[k]
        for i in range(width):
            out[i] = max(out[i], row[i])


@njit(nogil=True, cache=True)
def _powers(scores: Floats, highest: Floats, unit: np.float32, totals: Floats) -> None:
    """Replace scores by powers of 2 and add these to the totals."""
    for i in range(len(totals)):
        x = min(max((highest[i] - scores[i]) * unit, _ZERO), _FARTHEST) * _PARTS
        power = ((((_P5 * x + _P4) * x + _P3) * x + _P2) * x + _P1) * x + _ONE
        power = power * power
        power = power * power
        power = power * power
        power = power * power
        power = power * power
        weight = _rounded(power * _SUM)
        scores[i] = weight
        totals[i] += weight  # at most 2^24: at most `WEIGHTS_SUM` tokens have at most `WEIGHTS_SUM` each


@njit(nogil=True, cache=True)
def _weights(scores: Floats, count: int, unit: np.float32, highest: Floats, totals: Floats) -> None:
    """Replace each column of the scores by its softmax times `unit`, to the base 2, as whole numbers whose sum is near
    `WEIGHTS_SUM`. `scores`: `[count or more, columns]`."""
    width = len(totals)
    _highest(scores, count, highest)
    for i in range(width):
        totals[i] = _ZERO
    for k in range(count):
        _powers(scores[k], highest, unit, totals)
    for i in range(width):
        totals[i] = _SUM / totals[i]
    for k in range(count):
        row = scores[k]
        for i in range(width):
            row[i] = _rounded(row[i] * totals[i])


@njit(nogil=True, cache=True)
def attention(
    sums: Sums,
    scales: Floats,
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
    out_scales: Floats,
) -> None:
    """Attention inside each sentence.

    `sums`: int32 `[tokens, 3 width]`, the products of queries, keys and values. `factor`, `offset`: what makes them,
    times the row's scale, whole numbers, at most `limit` for queries and keys and `VALUE_MAX` for values. `unit`: of a
    product of a query and a key, in the exponent to the base 2. `starts`: where each sentence begins, and the end of
    the last. `out`, `out_scales`: the next layer's rows, int8 `[tokens, width + copies]`, and their scales.
    """
    width = len(out_factor)
    size = width // heads
    longest = 0
    for sentence in range(len(starts) - 1):
        longest = max(longest, starts[sentence + 1] - starts[sentence])
    columns_max = (longest + COLUMNS - 1) // COLUMNS * COLUMNS
    together_max = max(columns_max, min(_COLUMNS_TOGETHER, heads * columns_max))
    numbers = np.zeros((columns_max, 3 * width), np.float32)
    queries = np.zeros(size * together_max, np.float32)
    scores = np.empty(columns_max * together_max, np.float32)
    highest = np.empty(together_max, np.float32)
    totals = np.empty(together_max, np.float32)
    for sentence in range(len(starts) - 1):
        start = starts[sentence]
        count = starts[sentence + 1] - start
        columns = (count + COLUMNS - 1) // COLUMNS * COLUMNS
        for i in range(count):
            row = numbers[i]
            own = sums[start + i]
            scale = scales[start + i]
            _scaled(own[: 2 * width], scale, factor[: 2 * width], offset[: 2 * width], limit, row[: 2 * width])
            _scaled(own[2 * width :], scale, factor[2 * width :], offset[2 * width :], _VALUE, row[2 * width :])
        group = max(1, _COLUMNS_TOGETHER // columns)
        for head in range(0, heads, group):
            those = min(group, heads - head)
            together = those * columns
            for h in range(those):
                for i in range(count):
                    row = numbers[i, (head + h) * size : (head + h + 1) * size]
                    for j in range(size):
                        queries[j * together + h * columns + i] = row[j]
            for h in range(those):
                key = width + (head + h) * size
                _product(
                    numbers, key, 3 * width, 1, count, queries, h * columns, together, columns, size,
                    scores, h * columns, together,
                )  # fmt: skip
            _weights(
                scores[: columns * together].reshape(columns, together), count, unit,
                highest[:together], totals[:together],
            )  # fmt: skip
            for h in range(those):
                query = (head + h) * size
                _product(
                    scores, h * columns, 1, together, count, numbers, 2 * width + query, 3 * width, size, count,
                    numbers, query, 3 * width,
                )  # fmt: skip
        for i in range(count):
            row = numbers[i, :width]
            for j in range(width):
                row[j] = row[j] * out_factor[j] + out_offset[j]
            out_scales[start + i] = _as_int8(row, _HIGH, _ZERO, copies, out[start + i])


@njit(nogil=True, cache=True)
def add_and_norm(
    sums: Sums,
    lacking: Whole,
    scales: Floats,
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
    out_scales: Floats,
) -> None:
    """Add the products, int32 `[tokens, width]`, to the hidden states, int32, and replace these by their layer norm.
    `lacking`: what all rows of the products lack, int32 `[width]`. `out`, `out_scales`: as in `attention`. `eps`: in
    the unit of the squares that it is added to."""
    width = hidden.shape[1]
    row = np.empty(width, np.int32)
    following = np.empty(width, np.float32)
    for r in range(len(sums)):
        total = np.int64(0)
        squares = np.int64(0)
        scale = scales[r]
        for j in range(width):
            added = _rounded(_f4(sums[r, j] + lacking[j]) * factor[j] * scale + offset[j])
            row[j] = hidden[r, j] + np.int32(min(max(added, -_RESIDUAL), _RESIDUAL))
        for j in range(width):
            total += row[j]
        for j in range(width):
            squares += row[j] * row[j]
        inverse = _f4(1.0 / math.sqrt(np.float64(width * squares - total * total) + eps))
        mean = total // width
        factor_of_row = _f4(width) * inverse
        shift = _f4(total - mean * width) * inverse
        for j in range(width):
            normed = _rounded((_f4(row[j] - mean) * factor_of_row - shift) * weight[j] + bias[j])
            hidden[r, j] = np.int32(normed)
            following[j] = normed * out_factor[j] + out_offset[j]
        out_scales[r] = _as_int8(following, _HIGH, _ZERO, copies, out[r])


@njit(nogil=True, cache=True)
def gelu(
    sums: Sums,
    scales: Floats,
    factor: Floats,
    offset: Floats,
    out_factor: Floats,
    out_offset: Floats,
    copies: Columns,
    out: Rows,
    out_scales: Floats,
) -> None:
    """GELU of the products, int32 `[tokens, width]`. `out`, `out_scales`: as in `attention`, but the numbers are
    positive but for rounding, and -128 stands for 0."""
    width = len(factor)
    following = np.empty(width, np.float32)
    for r in range(len(sums)):
        scale = scales[r]
        for j in range(width):
            x = _f4(sums[r, j]) * factor[j] * scale + offset[j]
            near = min(max(x, -_GELU_END), _GELU_END)
            u = near * near
            even = ((((((_G7 * u + _G6) * u + _G5) * u + _G4) * u + _G3) * u + _G2) * u + _G1) * u + _G0
            if abs(x) >= _GELU_END:
                even = _HALF * abs(x)
            following[j] = max((_HALF * x + even) * out_factor[j] + out_offset[j], _ZERO)
        out_scales[r] = _as_int8(following, _SPREAD, _HALF_SPREAD, copies, out[r])


@njit(nogil=True, cache=True)
def mean(hidden: Sums, starts: Starts, out: Floats) -> None:
    """The unit vector of the sum of each sentence's hidden states, float32 `[sentences, width]`."""
    width = hidden.shape[1]
    sums = np.empty(width, np.int64)
    for sentence in range(len(starts) - 1):
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
