"""Arrays in blocks of either kind: what is written, what is read, what travels, and what returns to the pool."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable
from multiprocessing import Pipe

import numpy as np
import pytest

from core.errors import QueueFull
from gpu_workers.engine.arrays import ArrayPool, Block, BlockArray
from gpu_workers.engine.local.shared_memory import SharedBlock, receive_blocks, send_blocks
from gpu_workers.engine.portable import MemoryBlock


@pytest.fixture(params=[SharedBlock, MemoryBlock])
def make_block(request: pytest.FixtureRequest) -> Callable[[int], Block]:
    return request.param  # type: ignore[no-any-return]


def test_shared_memory_passes_through_a_socket_as_a_descriptor() -> None:
    ours, theirs = Pipe()
    block = SharedBlock(8 + 24)
    sent = BlockArray(block, "float32", (2, 3), offset=8)
    sent.write_rows(np.array([[1, 2, 3]], dtype=np.float32), 1)
    ours.send(sent)
    send_blocks(ours, [block], os.getpid())

    received = theirs.recv()
    receive_blocks(theirs, [received.block])
    assert received.read().tolist() == [[0, 0, 0], [1, 2, 3]]
    received.write_rows(np.array([[4, 5, 6]], dtype=np.float32), 0)
    assert sent.read().tolist() == [[4, 5, 6], [1, 2, 3]]
    assert len(pickle.dumps(SharedBlock(1 << 20))) < 200, "the contents do not travel"


def test_portable_memory_travels_with_what_was_written_alone() -> None:
    sent = BlockArray(MemoryBlock(1 << 20), "float32", (2, 3), offset=8)
    sent.write_rows(np.array([[1, 2, 3]], dtype=np.float32), 0)
    message = pickle.dumps(sent)
    assert len(message) < 1000

    received = pickle.loads(message)
    assert received.block.size == 1 << 20
    assert received.read().tolist() == [[1, 2, 3], [0, 0, 0]]
    assert pickle.loads(pickle.dumps(received)).read().tolist() == [[1, 2, 3], [0, 0, 0]], "it may travel further"
    assert received.block.changes() == (0, b"")
    received.write_rows(np.array([[4, 5, 6]], dtype=np.float32), 1)
    start, content = received.block.changes()
    assert (start, np.frombuffer(content, np.float32).tolist()) == (20, [4, 5, 6])


def test_what_is_read_cannot_be_written(make_block: Callable[[int], Block]) -> None:
    array = BlockArray(make_block(8), "float32", (1, 2)).read()
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_an_array_may_lie_anywhere_in_its_block(make_block: Callable[[int], Block]) -> None:
    array = BlockArray(make_block(3 + 16), "float64", (1, 2), offset=3)
    array.write_rows(np.array([[1.5, -2.5]]), 0)
    assert array.read().tolist() == [[1.5, -2.5]]
    assert bytes(array.block.view(3)) == b"\0\0\0"


def test_nothing_is_written_beyond_the_end_or_in_another_type(make_block: Callable[[int], Block]) -> None:
    place = BlockArray(make_block(16), "float32", (2, 2))
    for rows in (np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float64)):
        with pytest.raises(ValueError, match="do not fit"):
            place.write_rows(rows, 0)
    with pytest.raises(ValueError, match="beyond the end"):
        place.block.write(b"x" * 9, 8)
    assert bytes(place.block.view(16)) == bytes(16)


def test_a_pool_hands_out_no_more_than_it_has_and_gets_it_back(make_block: Callable[[int], Block]) -> None:
    pool = ArrayPool(make_block, bytes_max=100)
    first = pool.block(60)
    with pytest.raises(QueueFull):
        pool.block(50)
    del first
    gc.collect()
    assert pool.block(100).size == 100
