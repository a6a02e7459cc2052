"""The worker process: `python -m gpu_workers.engine.worker ROLE FD`.

It communicates over one inherited socket: it receives the factory of its handler, sends `Ready`, then receives batches
and sends results. It exits when the socket closes, so it never outlives its gateway. Request text stays in its memory:
the process writes nothing, sends a handler's exception as a code without a message, and disables core dumps.

`WorkerTime` limits the time of a batch, and runs batches of others in the middle of a long one. A timer interrupts the
main thread every few milliseconds, between two steps of the interpreter:

* A batch whose preparation takes more than `PREPARED_CPU_S_MAX` of a processor is cut. Nothing of it was drawn.
* A task that is `interruptible` (`gpu_workers.engine.protocol.Task`) is suspended while a batch of others waits in the
  socket, and gets a quarter of the time that this took before the next one. Its draw is interrupted in the same way
  only if it says so (`interruptible_draw`).
* A batch of tasks that pause (`pauses`) lets such batches run between its steps: the handler calls
  `gpu_workers.engine.handler.pause`.

A call that does not return to the interpreter is not interrupted; the pool kills a worker whose batch takes too long.
"""

import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NoReturn

from core.memory import trim
from gpu_workers.engine.arrays import receive_blocks
from gpu_workers.engine.handler import (
    BatchDone,
    Begun,
    HandlerFactory,
    LoadFailed,
    OutOfTime,
    Ready,
    Stage,
    TaskBatch,
    load_failure,
    run_batch,
    set_pause,
)

# The largest texts that limits allow take some seconds of a processor, and so does a model that is loaded on demand. It
# is reached before the pool kills the worker (`batch_seconds_max`), also on a processor that is shared.
PREPARED_CPU_S_MAX = 15.0
_TICK_S = 0.02  # a batch of other tenants waits for about so long
_PAUSE_S = 0.005
_OWN_SHARE = 0.25  # of a suspended task, beside batches of others: they are of several tenants, and it is of one


@dataclass
class _Running:
    """A batch that runs. `other_s`: the processor time of batches that ran in the middle of it."""

    interruptible: bool
    pauses: bool
    started: float
    other_s: float = 0.0
    suspended: bool = False
    cut: bool = False

    @property
    def cpu_s(self) -> float:
        return time.thread_time() - self.started - self.other_s


class WorkerTime:
    """The time of the main thread. The gateway's queue has admitted the tasks; this divides one thread of another
    process, by a timer, so it shares no code with the turns of tenants.

    `waits`: whether a batch of others has arrived. `run_other` runs it.
    """

    def __init__(self, waits: Callable[[], bool], run_other: Callable[[], None]) -> None:
        self._waits, self._run_other = waits, run_other
        self._running: list[_Running] = []
        self._paused_at = 0.0
        self.suspended_s = 0.0  # in which the last long batch was suspended, in seconds of the clock
        signal.signal(signal.SIGALRM, lambda _, frame: self._tick(frame))

    @contextmanager
    def preparing(self, tasks: Sequence[Any]) -> Iterator[None]:
        """Limit the time of what runs inside. Raises OutOfTime there."""
        with self._limited(interruptible=_allows(tasks, "interruptible"), pauses=_pauses(tasks)):
            yield

    def pause(self) -> None:
        """Run the batch of others that waits, if all tasks of the one that runs pause. Called often: it looks for one
        every few milliseconds."""
        now = time.perf_counter()
        if not self._running or not self._running[-1].pauses or now - self._paused_at < _PAUSE_S:
            return
        self._paused_at = now
        if self._waits():
            self._suspend(self._running[-1])

    @contextmanager
    def drawing(self, tasks: Sequence[Any]) -> Iterator[None]:
        """As `preparing`, for a task whose draw may be interrupted; that of any other is not."""
        if not _allows(tasks, "interruptible_draw"):
            yield
            return
        with self._limited(interruptible=True):
            yield

    @contextmanager
    def _limited(self, *, interruptible: bool, pauses: bool = False) -> Iterator[None]:
        depth = len(self._running)
        self._running.append(_Running(interruptible and not depth, pauses and not depth, time.thread_time()))
        signal.setitimer(signal.ITIMER_REAL, _TICK_S)
        try:
            try:
                yield
            finally:
                self._end(depth)
        finally:  # once more: a cut may come in the middle of the end, but not twice
            self._end(depth)

    def _end(self, depth: int) -> None:
        if not depth:
            signal.setitimer(signal.ITIMER_REAL, 0)
        del self._running[depth:]

    def _tick(self, frame: FrameType | None) -> None:
        if not self._running or self._running[-1].suspended:
            return
        running = self._running[-1]
        signal.setitimer(signal.ITIMER_REAL, _TICK_S)
        if _imports(frame):
            return
        if running.cpu_s > PREPARED_CPU_S_MAX and not running.cut:
            running.cut = True
            raise OutOfTime
        if running.interruptible and self._waits():
            self._suspend(running)

    def _suspend(self, running: _Running) -> None:
        started, began = time.thread_time(), time.perf_counter()
        running.suspended = True
        try:
            self._run_other()
        except EOFError:  # the gateway sends nothing more, and waits for the result of the task
            self._waits = lambda: False
        finally:
            running.suspended = False
            running.other_s += time.thread_time() - started
            taken = time.perf_counter() - began
            self.suspended_s += taken
            signal.setitimer(signal.ITIMER_REAL, max(_TICK_S, _OWN_SHARE * taken))


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported, of which another batch would see a part."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _allows(tasks: Sequence[Any], attribute: str) -> bool:
    return len(tasks) == 1 and getattr(tasks[0], attribute, False)


def _pauses(tasks: Sequence[Any]) -> bool:
    return all(getattr(task, "pauses", False) for task in tasks)


# The front end and Redis go first: they are what the next batch waits for. Jobs go last.
_NICENESS = 5


def serve(connection: Connection) -> NoReturn:
    """Load the handler, then run batches until the socket closes, which raises EOFError.

    Raises SystemExit if the worker cannot be made ready.
    """
    factory: HandlerFactory = connection.recv()
    connection.send(Stage("importing"))
    try:
        handler = factory()
        connection.send(Stage("loading models"))
        facts = handler.warm_up()
    except Exception as error:
        connection.send(LoadFailed(load_failure(error)))
        # No request has been read yet, so the operator may see the whole traceback.
        traceback.print_exception(error)
        raise SystemExit(1) from None
    # What was loaded stays: the collector would visit it, for tens of milliseconds, while requests wait.
    gc.collect()
    gc.freeze()
    trim()  # loading a model frees more memory than a batch needs
    connection.send(Ready(facts))

    def run_next() -> None:
        batch: TaskBatch = connection.recv()
        receive_blocks(connection, batch.blocks)
        if batch.says_begun:
            connection.send(Begun(batch.batch_id))
        started, suspended = time.perf_counter(), worker_time.suspended_s
        results = run_batch(handler, batch.payloads, worker_time)
        seconds = time.perf_counter() - started - (worker_time.suspended_s - suspended)
        connection.send(BatchDone(batch.batch_id, results, seconds))

    worker_time = WorkerTime(connection.poll, run_next)
    set_pause(worker_time.pause)
    while True:
        run_next()


def main() -> int:
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C signals the gateway, which closes the socket
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)  # a log record of a library may hold text
    role, fd = sys.argv[1], int(sys.argv[2])
    with contextlib.closing(Connection(fd)) as connection:
        try:
            serve(connection)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return 0
        except Exception as error:
            # After loading, write only the type: a message could hold text.
            sys.stderr.write(f"privacy-gateway {role} worker {os.getpid()}: {type(error).__name__}\n")
            return 1


if __name__ == "__main__":
    sys.exit(main())
