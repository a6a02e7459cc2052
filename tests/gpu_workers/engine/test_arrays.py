"""Arrays in blocks: what is written, what is read, what travels, and what returns to the pool."""

import os
import pickle
from multiprocessing import Pipe

import numpy as np
import pytest

from gpu_workers.engine.arrays import Block, BlockArray, receive_blocks, send_blocks


def test_shared_memory_passes_through_a_socket_as_a_descriptor() -> None:
    ours, theirs = Pipe()
    block = Block(8 + 24)
    sent = BlockArray(block, "float32", (2, 3), offset=8)
    sent.write_rows(np.array([[1, 2, 3]], dtype=np.float32), 1)
    ours.send(sent)
    send_blocks(ours, [block], os.getpid())
    received = theirs.recv()
    receive_blocks(theirs, [received.block])
    assert received.read().tolist() == [[0, 0, 0], [1, 2, 3]]
    received.write_rows(np.array([[4, 5, 6]], dtype=np.float32), 0)
    assert sent.read().tolist() == [[4, 5, 6], [1, 2, 3]]
    assert len(pickle.dumps(Block(1 << 20))) < 200, "the contents do not travel"


def test_nothing_is_written_beyond_the_end_or_in_another_type() -> None:
    place = BlockArray(Block(16), "float32", (2, 2))
    for rows in (np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float64)):
        with pytest.raises(ValueError, match="do not fit"):
            place.write_rows(rows, 0)
    with pytest.raises(ValueError, match="beyond the end"):
        place.block.write(b"x" * 9, 8)
    assert bytes(place.block.view(16)) == bytes(16)
