"""Run a child process, for a worker of the local engine or for a job, and exchange messages with it.

Reads and writes on a pipe block. Each process therefore has one reading and one writing thread, which pass everything
they receive to the event loop. The threads share no state except the two queues.
"""

import asyncio
import contextlib
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from gpu_workers.fork_server import Process, start_process


class ChildProcess:
    """A process of `start_process`, which receives `first`. Starts after construction, in a thread.

    `on_message` and `on_death` are called on the event loop. No callback follows `on_death`.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        first: Any,
        on_message: Callable[[Any], None],
        on_death: Callable[[], None],
        preload: Sequence[str] = (),
    ) -> None:
        """`preload`: what a fork server imports before (`gpu_workers.fork_server_process`).

        Raises OSError or RuntimeError, with no process started, if there is no file descriptor or no thread left.
        """
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._on_death = on_death
        self.read_to_end = False  # whether every message that the process wrote was received
        self._process: Process | None = None
        self._killed = False
        self._ended = asyncio.Event()
        self._started = threading.Event()  # or it failed to start
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours.detach())
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outbox.put(first)
        start = partial(start_process, module, arguments, preload=preload)
        # The writer, which starts the process, comes last: without a reader, the process would never end.
        threading.Thread(target=self._read, name=f"{module}-reader", daemon=True).start()
        writer = threading.Thread(target=self._write, args=(start, theirs), name=f"{module}-writer", daemon=True)
        try:
            writer.start()
        except RuntimeError:
            self._started.set()
            theirs.close()  # the reader ends
            raise

    @property
    def pid(self) -> int | None:
        """None until it has started."""
        return None if self._process is None else self._process.pid

    def send(self, message: Any) -> None:
        """Queue a message. If the process is dead when the message is written, `on_death` is called."""
        self._outbox.put(message)

    def kill(self) -> None:
        """End the process, also if it has still to start."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Close the socket and wait for the process to end, and for `on_death`. Kill the process if it does not end in
        time."""
        self._outbox.put(None)
        try:
            await asyncio.to_thread(self._wait, grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            if self._process is not None:
                await asyncio.to_thread(self._wait)
        with contextlib.suppress(TimeoutError):  # a child of its own may hold the socket open
            await asyncio.wait_for(self._ended.wait(), grace_s)

    def _wait(self, timeout: float | None = None) -> None:
        """Return once the process has ended. Raises subprocess.TimeoutExpired."""
        if not self._started.wait(timeout):
            raise subprocess.TimeoutExpired("a process that has not started", timeout or 0)
        if self._process is not None:
            self._process.wait(timeout)

    def _write(self, start: Callable[[int], Process], theirs: socket.socket) -> None:
        with theirs:  # the process has its own copy, so that closing this one lets the reader see its death
            try:
                self._process = start(theirs.fileno())
            except Exception:  # the reader reports it as a death, and a process that started nevertheless ends
                self._shut(socket.SHUT_RDWR)
                return
            finally:
                self._started.set()
        if self._killed:
            self._process.kill()
        while (message := self._outbox.get()) is not None:
            try:
                self._transmit(self._connection, message)
            except Exception:  # it is dead, or would wait for the rest of a message that cannot be written
                self.kill()
                return
            message = None  # free the memory before the next message arrives: the process has its own copy
        # half-close: the worker reads to the end, finishes its batches and exits; its answers still arrive
        self._shut(socket.SHUT_WR)

    def _shut(self, how: int) -> None:
        with socket.socket(fileno=self._connection.fileno()) as ours:
            with contextlib.suppress(OSError):
                ours.shutdown(how)
            ours.detach()

    def _transmit(self, connection: Connection, message: Any) -> None:
        """Write one message. Runs in the writing thread, once the process has started."""
        connection.send(message)

    def _read(self) -> None:
        try:
            while True:
                # no variable may keep a message, or the payload that its error refers to, until the next one arrives
                self._call(self._on_message, self._connection.recv())
        except (EOFError, ConnectionResetError):
            self.read_to_end = True
        except Exception:  # noqa: S110 - a message that was cut off by the process's death, or cannot be read
            pass
        self.kill()
        self._wait()
        self._outbox.put(None)
        on_death = self._on_death
        del self._on_message, self._on_death  # they may refer to this object, which would keep what is in the outbox
        self._call(self._end, on_death)

    def _end(self, on_death: Callable[[], None]) -> None:
        self._ended.set()
        on_death()

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            return  # the loop is closed
