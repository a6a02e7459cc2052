"""A job's process: `python -m gpu_workers.jobs.process FD`.

It receives one `JobOrder` over the inherited socket, reports its progress and ends with `Succeeded` or `Failed`. Before
a job draws noise, it requests its charge and waits until the gateway's ledger has recorded it. The process exits at
once when the socket closes; the next attempt resumes from its checkpoints. Text exists only in its memory and in the
job's encrypted files. An exception is reported as a fixed word, and core dumps are disabled.
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
from collections.abc import Mapping
from multiprocessing.connection import Connection

from core.errors import JobFailed
from core.files.processes import FileLock
from core.memory import limit_memory
from gpu_workers.jobs.protocol import (
    RUN_LOCK,
    Charged,
    ChargeRequested,
    Failed,
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


def _receive(connection: Connection, charged: threading.Event) -> None:
    """Read messages until the gateway closes the socket or dies, then exit the process."""
    with contextlib.suppress(Exception):
        while True:
            if isinstance(connection.recv(), Charged):
                charged.set()
    os._exit(1)


def _run(connection: Connection, order: JobOrder, charged: threading.Event) -> Succeeded | Failed:
    def report(stage: str, fraction: float, metrics: Mapping[str, float] | None = None) -> None:
        connection.send(JobProgress(stage, min(max(fraction, 0.0), 1.0), metrics))

    def charge() -> None:
        connection.send(ChargeRequested())
        charged.wait()

    try:
        return Succeeded(job_function(order.entry_point)(order, report, charge))
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
            charged = threading.Event()
            threading.Thread(target=_receive, args=(connection, charged), daemon=True).start()
            if order.memory_bytes_max:
                limit_memory(order.memory_bytes_max)
            yield_to_requests(order.priority)
            lock = FileLock(order.folder / RUN_LOCK)
            if not _acquired(lock):
                return 1
            outcome = _run(connection, order, charged)
            connection.send(outcome)
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
