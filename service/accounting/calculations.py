"""Accounting calculations in separate processes, with a deadline, so that they never block the event loop.

The front end does not import scipy or dp-accounting. A worker process imports them for the first calculation.
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

# Share of the deadline. The rest is for a comparison that answers without its certificate.
_WORKER_SHARE = 0.8
_MODULES = {
    "compare": "core.accounting.compare",
    "calibrate_noise": "core.accounting.calibrate",
    "calibrate_steps": "core.accounting.calibrate",
    "largest_count": "core.accounting.certificate",
    "training_budget": "core.finetune.pricing",
}


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the gateway handles Ctrl-C and ends its workers
    signal.signal(signal.SIGALRM, _out_of_time)
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()


def _end_with_the_gateway() -> None:
    """Exit when the gateway dies. A worker of a pool holds both ends of its pipe and would not notice."""
    gateway = multiprocessing.parent_process()
    if gateway is not None:
        multiprocessing.connection.wait([gateway.sentinel])
        os._exit(1)


def _out_of_time(*_: object) -> None:
    raise CalculationTimeout


def _work(name: str, timeout_s: float, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run one function of the table in a worker. A timer interrupts it when its time is up."""
    signal.setitimer(signal.ITIMER_REAL, _WORKER_SHARE * timeout_s)
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)(*arguments, **keywords)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Calculations:
    """A process pool that starts with the first calculation."""

    def __init__(self, *, workers: int, queue_max: int, timeout_s: float) -> None:
        self._workers = workers
        self._queue_max = queue_max
        self._timeout_s = timeout_s
        self._pool: ProcessPoolExecutor | None = None
        self._waiting = 0

    async def run(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """Run one function of the table above and return its result. Its own errors pass through.

        Raises:
            QueueFull: too many calculations are waiting.
            CalculationTimeout: no result within the deadline, which includes the time in the queue.
            NotStarted: the worker died, or the gateway is stopping.
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
        """End the workers and drop their calculations. The next `run` starts new workers."""
        pool, self._pool = self._pool, None
        if pool is not None:
            workers = list((getattr(pool, "_processes", None) or {}).values())  # a public method from Python 3.14 on
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()
