"""Accounting calculations in processes of their own: never on the event loop, never past a deadline.

The front end imports neither scipy nor dp-accounting: a worker does, when the first calculation asks for one.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from core.errors import CalculationTimeout, NotStarted, QueueFull

# of the deadline: leaves time for a comparison to answer without its certificate
_WORKER_SHARE = 0.8
_MODULES = {
    "compare": "core.accounting.compare",
    "calibrate_noise": "core.accounting.calibrate",
    "calibrate_steps": "core.accounting.calibrate",
    "largest_count": "core.accounting.certificate",
    "training_budget": "core.finetune.pricing",
}


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the gateway, which ends its workers
    signal.signal(signal.SIGALRM, _out_of_time)
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()


def _end_with_the_gateway() -> None:
    """A pool's worker waits on a pipe of which it holds both ends: it would outlive a killed gateway for good."""
    gateway = multiprocessing.parent_process()
    if gateway is not None:
        multiprocessing.connection.wait([gateway.sentinel])
        os._exit(1)


def _out_of_time(*_: object) -> None:
    raise CalculationTimeout


def _work(name: str, timeout_s: float, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """In a worker: run one function of the table, cut off between two steps of Python once its time is up."""
    signal.setitimer(signal.ITIMER_REAL, _WORKER_SHARE * timeout_s)
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)(*arguments, **keywords)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Calculations:
    """A lazily started pool. `run` is the only way in."""

    def __init__(self, *, workers: int, queue_max: int, timeout_s: float) -> None:
        self._workers = workers
        self._queue_max = queue_max
        self._timeout_s = timeout_s
        self._pool: ProcessPoolExecutor | None = None
        self._waiting = 0

    async def run(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """The result of one function of the table above, with that function's own errors.

        Raises:
            QueueFull: too many calculations wait already.
            CalculationTimeout: not done by the deadline, waiting included.
            NotStarted: the worker died, or the gateway is closing.
        """
        if self._waiting >= self._queue_max:
            raise QueueFull
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin
            )
        pool = self._pool
        self._waiting += 1
        try:
            future = asyncio.get_running_loop().run_in_executor(pool, _work, name, self._timeout_s, arguments, keywords)
            return await asyncio.wait_for(future, self._timeout_s)
        except TimeoutError:
            raise CalculationTimeout from None
        except (BrokenProcessPool, RuntimeError):
            if self._pool is pool:
                self.close()
            raise NotStarted from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the workers; what they were at is lost. The next `run` starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            workers = list((getattr(pool, "_processes", None) or {}).values())  # public from Python 3.14 on
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()
