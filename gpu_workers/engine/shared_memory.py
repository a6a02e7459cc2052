"""Memory that the gateway shares with a worker process, so that no array is copied.

A block has no name and no file on disk. The system frees it when the last process that holds it ends, even by a crash.
Its file descriptor is sent over the same socket after the message that refers to it; no other process can open it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle


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

    def share(self, other: Block) -> None:
        """Become the same memory as a block of this process, of which this one is a copy by pickle."""
        self._hold(os.dup(other._fd))

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
