"""Accounting calculations in separate processes, with a deadline, so that they never block the event loop.

The front end does not import scipy or dp-accounting. A worker process imports them for the first calculation.

Tenants take turns (`Turns`). If there are two workers or more, the calculations of one tenant leave one worker to the
others. The workers run at a lower priority than the gateway and its engine, because calculations are free.
"""

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

from core.errors import CalculationTimeout, NotStarted
from gpu_workers.engine.fairness import Ticket, Turns

# Share of the deadline. The rest is for a comparison that answers without its certificate.
_WORKER_SHARE = 0.8
_MODULES = {
    "compare": "core.accounting.planning",
    "calibrate_noise": "core.accounting.planning",
    "calibrate_allocation": "core.accounting.planning",
    "calibrate_steps": "core.accounting.planning",
    "largest_count": "core.accounting.certificate",
    "training_budget": "core.finetune.plan",
    "build_projection": "core.mechanisms.vectors.projection",
    "codebook_codes": "core.mechanisms.vectors.codebook",
}


_NICENESS = 10
_QUEUE_MAX = 32  # those at the end of a longer queue would miss the deadline


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


class Calculations:
    """A process pool that starts with the first calculation."""

    def __init__(
        self, *, workers: int, timeout_s: float, tenant_share: float = 1.0, queue_max: int = _QUEUE_MAX
    ) -> None:
        self._workers = workers
        self._timeout_s = timeout_s
        self._pool: ProcessPoolExecutor | None = None
        self._turns = Turns(
            workers,
            tenant_places=max(1, workers - 1),
            callers_max=queue_max,
            tenant_share=tenant_share,
            limit="queue_tenant_share",
        )

    async def run(self, name: str, *arguments: Any, tenant: str, **keywords: Any) -> Any:
        """Run one function of the table above for `tenant` and return its result. Its own errors pass through.

        Raises:
            QueueFull: too many calculations are waiting or running.
            TenantLimitReached: too many of them are the tenant's.
            CalculationTimeout: no result within the deadline, which includes the time in the queue.
            NotStarted: the worker died, or the gateway is stopping.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                deadline = asyncio.get_running_loop().time() + self._timeout_s
                ticket = await self._turns.wait(tenant)
                left_s = max(0.001, deadline - asyncio.get_running_loop().time())
                return await self._calculated(ticket, left_s, name, arguments, keywords)
        except TimeoutError:
            raise CalculationTimeout from None

    async def _calculated(
        self, ticket: Ticket, timeout_s: float, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
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
            ticket.close()
            self._drop(pool)
            raise NotStarted from None
        loop = asyncio.get_running_loop()
        calculation.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(ticket.close))
        try:
            return await asyncio.wrap_future(calculation)
        except BrokenProcessPool:
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
