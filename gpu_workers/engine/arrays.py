"""Arrays that are too large to copy through a message.

A `Block` is memory that the gateway shares with a worker, a `BlockArray` is an array in a block, and an engine's
`ArrayPool` allocates blocks up to a limit.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_workers.engine.shared_memory import Block as Block
from gpu_workers.engine.shares import MemoryShares

Array = npt.NDArray[Any]
ARRAY_BYTES_MAX = 2048 * 1024 * 1024


def blocks_of(payloads: Sequence[object]) -> list[Block]:
    """Return the blocks that the payloads refer to, in order. All of them come from the pool of one engine.

    A payload that refers to any lists each of them once, as `blocks`.
    """
    return [block for payload in payloads for block in getattr(payload, "blocks", ())]


@dataclass(frozen=True)
class BlockArray:
    """An array of `shape` and `dtype` that starts at `offset` of a block."""

    block: Block
    dtype: str
    shape: tuple[int, int]
    offset: int = 0

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def read(self) -> Array:
        """Return the array in place, read-only, or a copy if its offset is not a multiple of the item size."""
        data = self.block.view(self.offset + self.nbytes)
        found = np.frombuffer(data, dtype=self.dtype, count=prod(self.shape), offset=self.offset)
        return np.require(found.reshape(self.shape), requirements="A")

    def rows(self, part: slice) -> BlockArray:
        """The rows from `part.start` to `part.stop` as an array in the same block."""
        row = self.shape[1] * np.dtype(self.dtype).itemsize
        return BlockArray(
            self.block, self.dtype, (part.stop - part.start, self.shape[1]), self.offset + part.start * row
        )

    def write_rows(self, rows: Array, start: int) -> None:
        """Write `rows`, of the same dtype, starting at row `start`. Raises ValueError for rows that do not fit."""
        if rows.dtype != self.dtype or rows.shape[1:] != self.shape[1:] or start + len(rows) > self.shape[0]:
            raise ValueError("the rows do not fit")
        at = self.offset + start * self.shape[1] * rows.itemsize
        self.block.write(np.ascontiguousarray(rows).data, at)


class ArrayPool:
    """Allocates blocks. Their bytes are limited, together and for each owner, and are free again
    when the block is unreferenced."""

    def __init__(self, *, bytes_max: int = ARRAY_BYTES_MAX, owner_bytes_max: int | None = None) -> None:
        """`owner_bytes_max`: by default one owner may use everything."""
        self._shares = MemoryShares(
            bytes_max=bytes_max,
            owner_bytes_max=bytes_max if owner_bytes_max is None else owner_bytes_max,
            limit="vectors_memory_per_tenant_bytes_max",
        )

    def block(self, size: int, *, owner: str = "") -> Block:
        """Allocate a block. Raises QueueFull or TenantLimitReached if it would exceed a limit."""
        block, charge = self.arriving(size, owner=owner)
        charge(size)
        return block

    def arriving(self, size_max: int, *, owner: str) -> tuple[Block, Callable[[int], None]]:
        """Allocate a block whose bytes are counted as they arrive: call the returned function before each write.

        Parts of a block that were not written use no memory. The function raises QueueFull or TenantLimitReached if the
        bytes would exceed a limit.
        """
        block = Block(size_max)
        counted = [0]
        weakref.finalize(block, self._give_back, owner, counted)

        def charge(size: int) -> None:
            self._shares.take(owner, size)
            counted[0] += size

        return block, charge

    def _give_back(self, owner: str, counted: list[int]) -> None:
        self._shares.give_back(owner, counted[0])
