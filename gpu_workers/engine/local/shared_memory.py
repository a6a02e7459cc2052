"""Memory that the gateway shares with one worker process, so that the local engine copies no array.

A block has no name and no file on disk. The system frees it when the last process that holds it ends, even by a crash.
Its file descriptor is sent over the same socket after the message that refers to it; no other process can open it.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle


class SharedBlock:
    """A `Block` of shared memory. Unwritten parts use no memory. Pickled without its contents: see `send_blocks`.

    `write` uses file writes because they cost less than a mapping, which causes a page fault for every page.
    """

    def __init__(self, size: int) -> None:
        self.__setstate__(size)
        self._hold(os.memfd_create("privacy-gateway"))
        os.ftruncate(self._fd, size)

    @classmethod
    def of_file(cls, fd: int, size: int) -> SharedBlock:
        """A block that is an open file, which nobody writes. The block closes it."""
        block = cls.__new__(cls)
        block.__setstate__(size)
        block._hold(fd)
        return block

    def _hold(self, fd: int) -> None:
        self._fd = fd
        weakref.finalize(self, os.close, fd)

    def __getstate__(self) -> int:
        return self.size

    def __setstate__(self, size: int) -> None:
        self.size = size
        self._changed: tuple[int, int] | None = None
        self._lock = threading.Lock()

    @property
    def changed(self) -> tuple[int, int]:
        """The range from the first to the last byte that this process has written; (0, 0) for none."""
        return self._changed or (0, 0)

    def send(self, connection: Connection, pid: int) -> None:
        send_handle(connection, self._fd, pid)

    def receive(self, connection: Connection) -> None:
        self._hold(recv_handle(connection))

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Raises ValueError if the data exceeds the end of the block."""
        view = memoryview(data).cast("B")
        if offset + len(view) > self.size:
            raise ValueError("beyond the end of the block")
        with self._lock:
            start, end = self._changed or (offset, offset)
            self._changed = min(start, offset), max(end, offset + len(view))
        while len(view):
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written

    def view(self, size: int) -> memoryview:
        """Return the first `size` bytes, read-only. They stay mapped as long as the view exists."""
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        return memoryview(mmap.mmap(self._fd, size, flags=flags, prot=mmap.PROT_READ)) if size else memoryview(b"")

    def freeze(self, group: str) -> None:
        """Every worker has the memory already."""


def send_blocks(connection: Connection, blocks: Sequence[SharedBlock], pid: int) -> None:
    """Send `blocks` to the process `pid`, the peer of `connection`, after a message that refers to them."""
    for block in blocks:
        block.send(connection, pid)


def receive_blocks(connection: Connection, blocks: Sequence[SharedBlock]) -> None:
    """Receive the blocks that a message refers to, in the same order."""
    for block in blocks:
        block.receive(connection)
