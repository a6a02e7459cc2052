"""Arrays that are too large to copy through a message.

A `Block` is memory that the gateway shares with a worker, a `BlockArray` is an array in a block, and an engine's
`ArrayPool` allocates blocks up to a limit.

A block has no name and no file on disk. The system frees it when the last process that holds it ends, even by a crash.
Its file descriptor is sent over the same socket after the message that refers to it; no other process can open it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_workers.engine.fairness import MemoryShares


class Block:
    """`size` bytes, initially zero. Unwritten parts use no memory. Pickled without its contents: see `send_blocks`.

    Several threads may write at once if their ranges do not overlap. `write` uses file writes because they cost less
    than a mapping, which causes a page fault for every page.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._hold(os.memfd_create("privacy-gateway"))
        os.ftruncate(self._fd, size)

    def _hold(self, fd: int) -> None:
        self._fd = fd
        weakref.finalize(self, os.close, fd)

    def __getstate__(self) -> int:
        return self.size

    def __setstate__(self, size: int) -> None:
        self.size = size

    def send(self, connection: Connection, pid: int) -> None:
        send_handle(connection, self._fd, pid)

    def receive(self, connection: Connection) -> None:
        self._hold(recv_handle(connection))

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Raises ValueError if the data exceeds the end of the block."""
        view = memoryview(data).cast("B")
        if offset + len(view) > self.size:
            raise ValueError("beyond the end of the block")
        while len(view):
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written

    def view(self, size: int) -> memoryview:
        """Return the first `size` bytes, read-only. They stay mapped as long as the view exists."""
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        return memoryview(mmap.mmap(self._fd, size, flags=flags, prot=mmap.PROT_READ)) if size else memoryview(b"")


def send_blocks(connection: Connection, blocks: Sequence[Block], pid: int) -> None:
    """Send `blocks` to the process `pid`, the peer of `connection`, after a message that refers to them."""
    for block in blocks:
        block.send(connection, pid)


def receive_blocks(connection: Connection, blocks: Sequence[Block]) -> None:
    """Receive the blocks that a message refers to, in the same order."""
    for block in blocks:
        block.receive(connection)


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
        ticket = self._shares.opened(owner)
        weakref.finalize(block, ticket.close)
        return block, ticket.take
