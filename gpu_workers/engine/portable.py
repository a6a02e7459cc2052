"""Memory for arrays that is not shared with a worker, and batches that pass through a serialised form in one process.

`run_coded` uses the codec of worker servers (`gpu_workers.engine.remote`), so what it runs is what a worker on another
machine would get. `pack`, `run_packed` and `unpack` pickle, for payloads that have no codec. In both cases the answer
holds the results and, for each block, the bytes that the worker wrote.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_workers.engine.arrays import blocks_of
from gpu_workers.engine.constants import Constant
from gpu_workers.engine.handler import Handler, run_batch
from gpu_workers.engine.remote.codec import Blocks, Codec


class MemoryBlock:
    """A `Block` in this process. Unwritten parts use no memory. Pickled with the written contents."""

    def __init__(self, size: int) -> None:
        self.__setstate__((size, b""))

    @classmethod
    def of(cls, size: int, content: memoryview) -> MemoryBlock:
        """A block that begins with `content`, which does not count as a change."""
        block = cls.__new__(cls)
        block.__setstate__((size, content))
        return block

    def __getstate__(self) -> tuple[int, bytes]:
        return self.size, bytes(self._data[: self._end])

    def __setstate__(self, state: tuple[int, bytes | memoryview]) -> None:
        self.size, content = state
        self._data = np.zeros(self.size, np.uint8).data
        self._data[: len(content)] = content
        self._end = len(content)
        self._changed: tuple[int, int] | None = None  # since the block was created or unpickled
        self.constant: Constant | None = None  # what the content is, once it is frozen
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

    def freeze(self, group: str) -> None:
        self.constant = Constant(group, hashlib.sha256(self._data).hexdigest(), self.size)

    @property
    def written(self) -> int:
        """The end of the last byte that was written; all bytes after it are zero."""
        return self._end

    def changes(self) -> tuple[int, bytes]:
        """Return the range from the first to the last byte written since creation or unpickling, as (start, bytes)."""
        start, end = self._changed or (0, 0)
        return start, bytes(self._data[start:end])


def contents(blocks: Blocks) -> list[memoryview]:
    """The written beginning of the range of each block."""
    return [
        block.view(max(start, min(end, block.written)))[start:]
        for block, (start, end) in zip(blocks.blocks, blocks.ranges, strict=True)
    ]


def run_coded(handler: Handler, payloads: Sequence[Any], codec: Codec) -> list[Any]:
    """Run a batch as a worker server does. `run_batch` documents the guarantee."""
    blocks = Blocks()
    body = codec.encode(list(payloads), blocks)
    memory = [
        MemoryBlock.of(max(1, end - start), content)
        for (start, end), content in zip(blocks.ranges, contents(blocks), strict=True)
    ]
    places = [(own, start) for own, (start, _) in zip(memory, blocks.ranges, strict=True)]
    answer = codec.encode(run_batch(handler, codec.decode(body, places)))
    for block, (own, start) in zip(blocks.blocks, places, strict=True):
        first, content = own.changes()
        block.write(content, start + first)
    return list(codec.decode(answer))


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
