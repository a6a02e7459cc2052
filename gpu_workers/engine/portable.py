"""Serialise batches for workers that share no memory with the gateway.

The payloads are pickled with the contents of their blocks. The answer holds the results and, for each block, the bytes
that the worker wrote. `unpack` copies these bytes into the caller's blocks.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_workers.engine.arrays import blocks_of
from gpu_workers.engine.handler import Handler, run_batch


class MemoryBlock:
    """A `Block` in this process. Unwritten parts use no memory. Pickled with the written contents."""

    def __init__(self, size: int) -> None:
        self.__setstate__((size, b""))

    def __getstate__(self) -> tuple[int, bytes]:
        return self.size, bytes(self._data[: self._end])

    def __setstate__(self, state: tuple[int, bytes]) -> None:
        self.size, content = state
        self._data = np.zeros(self.size, np.uint8).data
        self._data[: len(content)] = content
        self._end = len(content)
        self._changed: tuple[int, int] | None = None  # since the block was created or unpickled
        self._lock = threading.Lock()

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Raises ValueError if the data exceeds the end of the block."""
        view = memoryview(data).cast("B")
        end = offset + len(view)
        if end > self.size:
            raise ValueError("beyond the end of the block")
        self._data[offset:end] = view
        with self._lock:
            self._end = max(self._end, end)
            start, stop = self._changed or (offset, end)
            self._changed = min(start, offset), max(stop, end)

    def view(self, size: int) -> memoryview:
        """Return the first `size` bytes, read-only."""
        return self._data[:size].toreadonly()

    @property
    def written(self) -> int:
        """The end of the last byte that was written; all bytes after it are zero."""
        return self._end

    def changes(self) -> tuple[int, bytes]:
        """Return the range from the first to the last byte written since creation or unpickling, as (start, bytes)."""
        start, end = self._changed or (0, 0)
        return start, bytes(self._data[start:end])


def pack(payloads: Sequence[Any]) -> bytes:
    """Serialise a batch as a message to a worker."""
    return pickle.dumps(list(payloads), protocol=pickle.HIGHEST_PROTOCOL)


def run_packed(handler: Handler, message: bytes) -> bytes:
    """Run a packed batch in a worker. `run_batch` documents the guarantee. Errors in the answer carry no text."""
    payloads = pickle.loads(message)  # noqa: S301 - from the gateway, which starts the worker
    results = run_batch(handler, payloads)
    changes = [block.changes() for block in blocks_of(payloads)]
    return pickle.dumps((results, changes), protocol=pickle.HIGHEST_PROTOCOL)


def unpack(answer: bytes, payloads: Sequence[Any]) -> list[Any]:
    """Return the results in a worker's answer to `payloads`, and copy what the worker wrote into their blocks."""
    results, changes = pickle.loads(answer)  # noqa: S301 - from a worker that the gateway has started
    for block, (start, content) in zip(blocks_of(payloads), changes, strict=True):
        block.write(content, start)
    return list(results)
