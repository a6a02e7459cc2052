"""Memory that the gateway and one worker share, for arrays that are too large to be copied through a socket.

A block has no name and is on no disk: it ends with the last process that holds it, however that one ends. Its file
descriptor follows the message that mentions it over the same socket; nobody else can open it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import QueueFull

Array = npt.NDArray[Any]


class SharedBlock:
    """`size` bytes of zeros; what is never written takes no memory. Pickled without its contents: see `send_blocks`.

    Written by `write`, which is cheaper than a mapping: a mapping faults once a page.
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
        """Raises ValueError beyond the end."""
        view = memoryview(data).cast("B")
        if offset + len(view) > self.size:
            raise ValueError("beyond the end of the block")
        while len(view):
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written

    def view(self, size: int) -> memoryview:
        """The first `size` bytes, read-only, mapped for as long as somebody holds them."""
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        return memoryview(mmap.mmap(self._fd, size, flags=flags, prot=mmap.PROT_READ)) if size else memoryview(b"")


@dataclass(frozen=True)
class SharedArray:
    """An array `shape` of `dtype` that lies at `offset` of a block."""

    block: SharedBlock
    dtype: str
    shape: tuple[int, int]
    offset: int = 0

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def read(self) -> Array:
        """The array as it lies there, read-only; a copy if its offset is not a multiple of its items' size."""
        data = self.block.view(self.offset + self.nbytes)
        found = np.frombuffer(data, dtype=self.dtype, count=prod(self.shape), offset=self.offset)
        return np.require(found.reshape(self.shape), requirements="A")

    def write_rows(self, rows: Array, start: int) -> None:
        """Put `rows`, of this dtype, at row `start`."""
        if rows.dtype != self.dtype or rows.shape[1:] != self.shape[1:] or start + len(rows) > self.shape[0]:
            raise ValueError("rows that do not fit")
        at = self.offset + start * self.shape[1] * rows.itemsize
        self.block.write(np.ascontiguousarray(rows).data, at)


class SharedPool:
    """Hands out blocks of at most `bytes_max` together; a block's share comes back when nobody holds it."""

    def __init__(self, bytes_max: int) -> None:
        self._free = bytes_max

    def block(self, size: int) -> SharedBlock:
        """Raises QueueFull while too much is in use."""
        if size > self._free:
            raise QueueFull
        taken = SharedBlock(size)
        self._free -= size
        weakref.finalize(taken, self._give_back, size)
        return taken

    def _give_back(self, size: int) -> None:
        self._free += size


def send_blocks(connection: Connection, blocks: Sequence[SharedBlock], pid: int) -> None:
    """After a message that mentions `blocks`: lend them to the process `pid` at the other end."""
    for block in blocks:
        block.send(connection, pid)


def receive_blocks(connection: Connection, blocks: Sequence[SharedBlock]) -> None:
    """After a message with `blocks` in it: take them, in the same order."""
    for block in blocks:
        block.receive(connection)
