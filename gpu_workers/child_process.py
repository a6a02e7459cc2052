"""Run a child process, for a worker of the local engine or for a job, and exchange messages with it.

Reads and writes on a pipe block. Each process therefore has one reading and one writing thread, which pass everything
they receive to the event loop. The threads share no state except the two queues.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from gpu_workers.environment import child_environment

# OMP_WAIT_POLICY: OpenMP threads that spin at a barrier compete with the front end and Redis for the cores. On two busy
# cores, a small batch took 1900 ms with spinning threads and 55 ms with sleeping ones.
# MKL_CBWR: with this setting, MKL's float32 products round in the same way for any number of rows, at the same speed.
# Without it, the rounding depends on the number of rows on Intel processors, and the encoder has to pad its batches.
# Intel documents this for the number of threads and for alignment. The encoder's self-check measures it for the number
# of rows.
WORKER_ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "MKL_CBWR": "AUTO,STRICT"}


class ChildProcess:
    """A process that runs `python -P -m MODULE ARGUMENTS... FD` and receives `first`. Starts on construction.

    `-P` prevents a folder `core` in the working directory from shadowing the package.

    `on_message` and `on_death` are called on the event loop. No callback follows `on_death`.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        first: Any,
        on_message: Callable[[Any], None],
        on_death: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._on_death = on_death
        self.read_to_end = False  # whether every message that the process wrote was received
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", "-m", module, *arguments, str(theirs.fileno())]
            environment = WORKER_ENVIRONMENT | child_environment()
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        self._connection = Connection(ours.detach())
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outbox.put(first)
        threading.Thread(target=self._write, name=f"{module}-writer", daemon=True).start()
        threading.Thread(target=self._read, name=f"{module}-reader", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Any) -> None:
        """Queue a message. If the process is dead when the message is written, `on_death` is called."""
        self._outbox.put(message)

    def kill(self) -> None:
        self._process.kill()

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Close the socket and wait for the process to end. Kill the process if it does not end in time."""
        self._outbox.put(None)
        try:
            await asyncio.to_thread(self._process.wait, grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            try:
                self._transmit(self._connection, message)
            except OSError:
                return
            message = None  # free the memory before the next message arrives: the process has its own copy
        # half-close: the worker reads to the end, finishes its batches and exits; its answers still arrive
        with socket.socket(fileno=self._connection.fileno()) as ours:
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_WR)
            ours.detach()

    def _transmit(self, connection: Connection, message: Any) -> None:
        """Write one message. Runs in the writing thread."""
        connection.send(message)

    def _read(self) -> None:
        try:
            while True:
                message = self._connection.recv()
                self._call(self._on_message, message)
        except (EOFError, ConnectionResetError):
            self.read_to_end = True
        except Exception:  # noqa: S110 - a message that was cut off by the process's death, or cannot be read
            pass
        self._process.kill()
        self._process.wait()
        self._outbox.put(None)
        self._call(self._on_death)

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            return  # the loop is closed
