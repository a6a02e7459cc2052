"""The number of torch's threads for small work, for which waking another thread takes longer than the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ROWS_MIN = 64  # of each thread


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Let torch share the work on so many rows among as many threads as are of use, in this thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, min(threads, rows // ROWS_MIN)))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
