"""Blocks of memory that the gateway and one worker process share: the local engine copies no array.

A block has no name and is on no disk: it ends with the last process that holds it, however that one ends. Its file
descriptor follows the message that mentions it over the same socket; no other process can open it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle


class SharedBlock:
    """A `Block` of shared memory; what is never written takes no memory. Pickled without its contents: see
    `send_blocks`.

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
        """The first `size` bytes, read-only, mapped for as long as the view exists."""
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        return memoryview(mmap.mmap(self._fd, size, flags=flags, prot=mmap.PROT_READ)) if size else memoryview(b"")


def send_blocks(connection: Connection, blocks: Sequence[SharedBlock], pid: int) -> None:
    """Share `blocks` with the process `pid` at the other end, after a message that mentions them."""
    for block in blocks:
        block.send(connection, pid)


def receive_blocks(connection: Connection, blocks: Sequence[SharedBlock]) -> None:
    """Take the blocks that a message mentions, in the same order."""
    for block in blocks:
        block.receive(connection)
