"""Accounting calculations in separate processes, with a deadline, so that they never block the event loop.

The front end does not import scipy or dp-accounting. A worker process imports them for the first calculation.

Tenants take turns: the waiting calculations start in the order of a `FairQueue`. If there are two workers or more, the
calculations of one tenant leave one worker to the others. The workers run at a lower priority than the gateway and its
engine, because calculations are free.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from core.errors import CalculationTimeout, NotStarted, QueueFull, TenantLimitReached
from gpu_workers.engine.fair_queue import FairQueue

# Share of the deadline. The rest is for a comparison that answers without its certificate.
_WORKER_SHARE = 0.8
_MODULES = {
    "compare": "core.accounting.compare",
    "calibrate_noise": "core.accounting.calibrate",
    "calibrate_steps": "core.accounting.calibrate",
    "largest_count": "core.accounting.certificate",
    "training_budget": "core.finetune.pricing",
    "build_projection": "core.mechanisms.vectors.projection",
    "codebook_codes": "core.mechanisms.vectors.codebook",
}


_NICENESS = 10


def _begin() -> None:
    os.nice(_NICENESS)
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


@dataclass(eq=False)
class _Waiting:
    """A calculation that waits for its turn. `turn` is set when it may start."""

    tenant: str
    turn: asyncio.Future[None]
    work: int = 1
    places: int = 1


class Calculations:
    """A process pool that starts with the first calculation."""

    def __init__(self, *, workers: int, queue_max: int, timeout_s: float, tenant_share: float = 1.0) -> None:
        self._workers = workers
        self._queue_max = queue_max
        self._tenant_share = tenant_share
        self._timeout_s = timeout_s
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: FairQueue[_Waiting] = FairQueue()
        self._running: Counter[str] = Counter()

    async def run(self, name: str, *arguments: Any, tenant: str, **keywords: Any) -> Any:
        """Run one function of the table above for `tenant` and return its result. Its own errors pass through.

        Raises:
            QueueFull: too many calculations are waiting or running.
            TenantLimitReached: too many of them are the tenant's.
            CalculationTimeout: no result within the deadline, which includes the time in the queue.
            NotStarted: the worker died, or the gateway is stopping.
        """
        self._admit(tenant)
        try:
            async with asyncio.timeout(self._timeout_s):
                deadline = asyncio.get_running_loop().time() + self._timeout_s
                await self._turn(tenant)
                left_s = max(0.001, deadline - asyncio.get_running_loop().time())
                return await self._calculated(tenant, left_s, name, arguments, keywords)
        except TimeoutError:
            raise CalculationTimeout from None

    def _admit(self, tenant: str) -> None:
        own = self._waiting.held(tenant)[0] + self._running[tenant]
        total = self._waiting.places + self._running.total()
        if total >= self._queue_max:
            raise QueueFull
        if own >= math.ceil(self._tenant_share * (self._queue_max - (total - own))):
            raise TenantLimitReached(limit="queue_tenant_share")

    async def _turn(self, tenant: str) -> None:
        """Wait for a worker. On return, the calculation counts as running."""
        waiting = _Waiting(tenant, asyncio.get_running_loop().create_future())
        self._waiting.append(tenant, waiting)
        self._start_next()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.done() and not waiting.turn.cancelled():  # it had its turn in the same moment
                self._ended(tenant)
            else:
                self._waiting.keep(lambda entry: entry is not waiting)
            raise

    def _start_next(self) -> None:
        """Give turns to waiting calculations while workers are free."""
        own_max = max(1, self._workers - 1)
        while self._running.total() < self._workers and (entry := self._next(own_max)) is not None:
            self._waiting.take_of(entry.tenant)
            self._running[entry.tenant] += 1
            entry.turn.set_result(None)

    def _next(self, own_max: int) -> _Waiting | None:
        """The next calculation of a tenant with fewer than `own_max` running ones."""
        return next((entry for entry in self._waiting.heads() if self._running[entry.tenant] < own_max), None)

    def _ended(self, tenant: str) -> None:
        self._running[tenant] -= 1
        self._start_next()

    async def _calculated(
        self, tenant: str, timeout_s: float, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        """Run in a worker, which counts as busy until it has ended, whether or not the caller still waits."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin
            )
        pool = self._pool
        try:
            calculation = pool.submit(_work, name, timeout_s, arguments, keywords)
        except (BrokenProcessPool, RuntimeError):
            self._ended(tenant)
            self._drop(pool)
            raise NotStarted from None
        loop = asyncio.get_running_loop()
        calculation.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(self._ended, tenant))
        try:
            return await asyncio.wrap_future(calculation)
        except (BrokenProcessPool, RuntimeError):
            self._drop(pool)
            raise NotStarted from None

    def _drop(self, pool: ProcessPoolExecutor) -> None:
        if self._pool is pool:
            self.close()

    def close(self) -> None:
        """End the workers and drop their calculations. The next `run` starts new workers."""
        pool, self._pool = self._pool, None
        if pool is not None:
            workers = list((getattr(pool, "_processes", None) or {}).values())  # a public method from Python 3.14 on
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()
