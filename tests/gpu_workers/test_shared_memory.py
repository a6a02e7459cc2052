"""Memory that two processes share: what one writes the other reads, and nothing stays when nobody holds it."""

from __future__ import annotations

import gc
import os
import pickle
from multiprocessing import Pipe

import numpy as np
import pytest

from core.errors import QueueFull
from gpu_workers.engine.local.shared_memory import SharedArray, SharedBlock, SharedPool, receive_blocks, send_blocks


def test_an_array_passes_through_a_socket_as_a_descriptor() -> None:
    ours, theirs = Pipe()
    sent = SharedArray(SharedBlock(8 + 24), "float32", (2, 3), offset=8)
    sent.write_rows(np.array([[1, 2, 3]], dtype=np.float32), 1)
    ours.send(sent)
    send_blocks(ours, [sent.block], os.getpid())

    received = theirs.recv()
    receive_blocks(theirs, [received.block])
    assert received.read().tolist() == [[0, 0, 0], [1, 2, 3]]
    received.write_rows(np.array([[4, 5, 6]], dtype=np.float32), 0)
    assert sent.read().tolist() == [[4, 5, 6], [1, 2, 3]]
    assert len(pickle.dumps(SharedBlock(1 << 20))) < 200, "the contents do not travel"


def test_what_is_read_cannot_be_written() -> None:
    array = SharedArray(SharedBlock(8), "float32", (1, 2)).read()
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_nothing_is_written_beyond_the_end_or_in_another_type() -> None:
    place = SharedArray(SharedBlock(16), "float32", (2, 2))
    for rows in (np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float64)):
        with pytest.raises(ValueError, match="do not fit"):
            place.write_rows(rows, 0)
    with pytest.raises(ValueError, match="beyond the end"):
        place.block.write(b"x" * 9, 8)


def test_a_pool_hands_out_no_more_than_it_has_and_gets_it_back() -> None:
    pool = SharedPool(100)
    first = pool.block(60)
    with pytest.raises(QueueFull):
        pool.block(50)
    del first
    gc.collect()
    assert pool.block(100).size == 100
