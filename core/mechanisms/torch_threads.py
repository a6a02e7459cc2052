"""The number of torch's threads for a piece of work."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ROWS_MIN = 64  # of each thread: for fewer, waking another thread takes longer than the work


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Let torch work on so many rows in one thread where others would not pay, and in all otherwise: a number between
    them makes OpenMP end threads and start them again. See `at_most`."""
    with at_most(1 if rows < 2 * ROWS_MIN else torch.get_num_threads()):
        yield


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Let torch use at most so many threads for the work of the calling thread. A thread that begins meanwhile keeps
    that number, so begin none."""
    threads = torch.get_num_threads()
    torch.set_num_threads(min(threads, count))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
