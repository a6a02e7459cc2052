"""Exact products of 8-bit integers, by the kernels that the processor has.

Every way gives the same whole numbers, so the choice decides on speed alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import torch

from gpu_workers.models.integer.layers import PRODUCT_MAX

EXACT_MAX = 2**24  # float32 holds all whole numbers up to it
_FLOAT_INNER_MAX = EXACT_MAX // PRODUCT_MAX
_ROWS, _INNER, _OUTER = 128, 384, 1536  # what is timed
_CALLS = 20  # in turn, so that other work on the machine delays no way in all of them

Product = Callable[[torch.Tensor], torch.Tensor]
"""int8 `[rows, inner]` to int32 `[rows, outer]`."""


def by_integers(weight: torch.Tensor) -> Product:
    """The library's integer product: fast where the processor sums 8-bit products in 32 bits (VNNI, AMX).

    `weight`: int8 `[inner, outer]`."""
    held = weight.contiguous()
    return lambda rows: torch._int_mm(rows, held)


def by_floats(weight: torch.Tensor) -> Product:
    """Products in float32, of so few numbers at a time that every sum is a whole number which float32 holds."""
    parts = [part.float() for part in torch.split(weight, _FLOAT_INNER_MAX)]

    def product(rows: torch.Tensor) -> torch.Tensor:
        pieces = torch.split(rows, _FLOAT_INNER_MAX, dim=1)
        sums = [torch.mm(piece.float(), part).int() for piece, part in zip(pieces, parts, strict=True)]
        return sums[0] if len(sums) == 1 else torch.stack(sums).sum(dim=0, dtype=torch.int32)

    return product


def plainly(weight: torch.Tensor) -> Product:
    """Integers one by one, without a library for matrices: what the other two are compared with."""
    held = weight.numpy().astype(np.int32)
    return lambda rows: torch.from_numpy(rows.numpy().astype(np.int32) @ held)


WAYS: dict[str, Callable[[torch.Tensor], Product]] = {"integers": by_integers, "floats": by_floats}


@cache
def fastest_way() -> str:
    """The fastest of `exact_ways`. A process measures once."""
    seconds = exact_ways()
    return min(seconds, key=lambda name: seconds[name])


@cache
def exact_ways() -> dict[str, float]:
    """Those of `WAYS` that are exact on this processor, and their seconds. Some processors add 8-bit products in 16
    bits, which overflow."""
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randint, -128, 128, dtype=torch.int8, generator=generator)
    rows, weight = draw((_ROWS, _INNER)), draw((_INNER, _OUTER))
    rows[:2], weight[:, :2] = torch.tensor([[127], [-128]], dtype=torch.int8), -128  # the largest sums
    expected = (rows.double() @ weight.double()).int()  # float64 holds all of these sums
    products: dict[str, Product] = {}
    for name, way in WAYS.items():
        product = way(weight)
        if torch.equal(product(rows), expected) and torch.equal(product(rows[:1]), expected[:1]):
            products[name] = product
    seconds = dict.fromkeys(products, math.inf)
    for _ in range(_CALLS):
        for name, product in products.items():
            started = time.perf_counter()
            product(rows)
            seconds[name] = min(seconds[name], time.perf_counter() - started)
    return seconds
