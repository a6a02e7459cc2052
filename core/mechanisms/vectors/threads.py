"""Processes large arrays in as many threads as BLAS may use in this process, each block in one thread.

This replaces one product over all threads: noise and rounding run in parallel as well, and no thread waits for another
between blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]


def share_blocks(work: Callable[[list[slice]], None], blocks: list[slice]) -> None:
    """Run `work` on all of `blocks`, in parallel shares of consecutive blocks. Raises what `work` raises."""
    threads = min(len(blocks), _blas_threads()) if len(blocks) > 1 else 1  # the call takes milliseconds
    if threads == 1:
        work(blocks)
        return
    shares = [blocks[i * len(blocks) // threads : (i + 1) * len(blocks) // threads] for i in range(threads)]
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as executor:
        for done in [executor.submit(work, share) for share in shares]:
            done.result()


def _blas_threads() -> int:
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
