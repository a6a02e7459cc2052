"""Products of small float32 matrices of whole numbers, as vector instructions for numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ROWS, COLUMNS = 4, 16  # of a tile


@intrinsic
def tile(_typing: Any, left: Any, right: Any, out: Any, positions: Any) -> Any:
    """Set `out[to + r out_width + c]` to the sum over k of `left[at + r row_step + k step] right[own + k width + c]`.

    k is below `count`, r below `ROWS` and c below `COLUMNS`. `positions`: `at`, `row_step`, `step`, `own`, `width`,
    `count`, `to` and `out_width`, int64. The arrays are float32 and contiguous; the positions count their numbers from
    the first one and are not checked. All numbers are whole and every sum is below 2^24, so that the result is exact,
    with fused operations and without them.
    """

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
