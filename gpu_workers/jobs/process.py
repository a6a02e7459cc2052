"""A job's process: `python -m gpu_workers.jobs.process FD`.

It receives one `JobOrder` over the inherited socket, reports its progress and ends with `Succeeded` or `Failed`. Before
a job draws noise, it requests its charge and waits until the gateway's ledger has recorded it (`Exchange`). The
process exits at once when the socket closes; the next attempt resumes from its checkpoints. Text exists only in its
memory and in the job's encrypted files. An exception is reported as a fixed word, and core dumps are disabled.
"""

import contextlib
import errno
import importlib
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from core.errors import JobFailed
from core.files.processes import FileLock
from core.memory import limit_memory
from gpu_workers.jobs.protocol import (
    BUDGET,
    RUN_LOCK,
    Charged,
    ChargeRequested,
    Failed,
    Held,
    HoldRequested,
    JobFunction,
    JobOrder,
    JobProgress,
    Priority,
    Succeeded,
)

_FORMER_RUN_S_MAX = 30
_NICE = {"idle": 19, "low": 10}


def job_function(entry_point: str) -> JobFunction:
    """Import and return the function at `module:function`. Each process thus imports only what it runs."""
    module, _, name = entry_point.partition(":")
    found: JobFunction = getattr(importlib.import_module(module), name)
    return found


def yield_to_requests(priority: Priority) -> None:
    """`idle`: run only while no other process needs the core, so that a request never waits for the job. `low`: nice
    10.

    Measured on two cores: a request of 15 ms took 17 ms beside an idle job and 23 ms beside a nice one.
    """
    if priority == "idle" and hasattr(os, "sched_setscheduler"):
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            return
    if priority != "normal":
        os.nice(_NICE[priority])


def _is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """torch raises RuntimeError: for its own allocations, and of the device a subclass of a known name."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return any(sign in str(error) for sign in ("can't allocate memory", "can't start new thread"))


class Exchange:
    """The messages between a job's code and its gateway: a `Charge`, and a `ReportProgress` as `report`."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._answered = threading.Condition()
        self._charged: set[int | None] = set()
        self._asked: set[int | None] = set()
        self._held: dict[int, JobFailed | None] = {}

    def received(self, message: Any) -> None:
        """Take an answer of the gateway, on another thread than the job's."""
        with self._answered:
            if isinstance(message, Charged):
                self._charged.add(message.part)
            elif isinstance(message, Held):
                self._held[message.part] = message.problem
            self._answered.notify_all()

    def report(self, stage: str, fraction: float, metrics: Mapping[str, float] | None = None, /) -> None:
        self._send(JobProgress(stage, min(max(fraction, 0.0), 1.0), metrics))

    def ask(self, part: int | None, /) -> None:
        if part not in self._asked:
            self._asked.add(part)
            self._send(ChargeRequested(part))

    def __call__(self, part: int | None = None, /) -> None:
        self.ask(part)
        with self._answered:
            self._answered.wait_for(lambda: part in self._charged)

    def hold(self, part: int, rows: int, subjects: Mapping[str, int] | None = None, /) -> bool:
        self._send(HoldRequested(part, rows, subjects))
        with self._answered:
            self._answered.wait_for(lambda: part in self._held)
        problem = self._held[part]
        if problem is not None and problem.reason != BUDGET:
            raise problem
        return problem is None


def _receive(connection: Connection, exchange: Exchange) -> None:
    """Read messages until the gateway closes the socket or dies, then exit the process."""
    with contextlib.suppress(Exception):
        while True:
            exchange.received(connection.recv())
    os._exit(1)


def run_job(order: JobOrder, exchange: Exchange, function: JobFunction | None = None) -> Succeeded | Failed:
    """Run a job's function, by default that of its entry point. An exception becomes a problem of fixed words."""
    try:
        return Succeeded((function or job_function(order.entry_point))(order, exchange.report, exchange))
    except JobFailed as problem:
        return Failed(problem)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            return Failed(JobFailed(reason=type(error).__name__.lower()[:40]))
        return Failed(JobFailed("The job needs more memory than a job may use.", reason="out-of-memory"))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return Failed(JobFailed(reason="storage-full" if full else type(error).__name__.lower()[:40]))
    except Exception as error:
        return Failed(JobFailed(reason=type(error).__name__.lower()[:40]))


def main() -> int:
    # Ctrl-C and service managers signal the gateway as well, which stops in order, ends this process and queues the job
    # again, so that the stop is no attempt. If the gateway dies, its end of the socket closes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)  # a log record of a library may hold text
    with contextlib.closing(Connection(int(sys.argv[1]))) as connection:
        try:
            order: JobOrder = connection.recv()
            exchange = Exchange(connection.send)
            threading.Thread(target=_receive, args=(connection, exchange), daemon=True).start()
            if order.memory_bytes_max:
                limit_memory(order.memory_bytes_max)
            yield_to_requests(order.priority)
            lock = FileLock(order.folder / RUN_LOCK)
            if not _acquired(lock):
                return 1
            connection.send(run_job(order, exchange))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return 1
    return 0


def _acquired(lock: FileLock) -> bool:
    """Wait for the lock. The process of an earlier attempt dies with its gateway and uses the files until then."""
    for _ in range(_FORMER_RUN_S_MAX * 10):
        if lock.try_acquire():
            return True
        time.sleep(0.1)
    return False


if __name__ == "__main__":
    sys.exit(main())
