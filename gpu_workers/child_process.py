"""Run a child process, for a worker of the local engine or for a job, and exchange messages with it.

The event loop writes and reads short messages itself: handing one over to another thread takes a millisecond where the
processors are busy. Large messages, what does not fit into the socket, and what is sent before the process has started
are written by a thread, which gets them through a queue. The rest of a large message is read and unpacked in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import queue
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from gpu_workers.fork_server import Process, start_process

_READ_BYTES = 256 * 1024
_DIRECT_BYTES_MAX = 64 * 1024
_SIZE, _LARGE_SIZE = struct.Struct("!i"), struct.Struct("!Q")


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
        """`preload`: what a fork server imports before (`gpu_workers.fork_server_process`)."""
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._on_death = on_death
        self.read_to_end = False  # whether every message that the process wrote was received
        self._process: Process | None = None
        self._killed = False
        self._started = threading.Event()  # or it failed to start
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outbox.put(first)
        self._queued, self._written = 1, 0
        start = partial(start_process, module, arguments, preload=preload)
        threading.Thread(target=self._write, args=(start, theirs), name=f"{module}-writer", daemon=True).start()
        self._received = bytearray()  # the start of a message
        self._loop.add_reader(self._connection.fileno(), self._readable)

    @property
    def pid(self) -> int | None:
        """None until it has started."""
        return None if self._process is None else self._process.pid

    def send(self, message: Any) -> None:
        """Queue a message. If the process is dead when the message is written, `on_death` is called."""
        if self._queued == self._written:  # otherwise this message would overtake another
            message = self._left_of(message)
        if message is not None:
            self._queued += 1
            self._outbox.put(message)

    def kill(self) -> None:
        """End the process, also if it has still to start."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Close the socket and wait for the process to end. Kill the process if it does not end in time."""
        self._outbox.put(None)
        try:
            await asyncio.to_thread(self._wait, grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            if self._process is not None:
                await asyncio.to_thread(self._wait)

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
                if isinstance(message, _Frame):
                    self._socket.sendall(message)
                else:
                    self._transmit(self._connection, message)
            except OSError:
                return
            self._written += 1
            message = None  # free the memory before the next message arrives: the process has its own copy
        # half-close: the worker reads to the end, finishes its batches and exits; its answers still arrive
        self._shut(socket.SHUT_WR)

    def _shut(self, how: int) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(how)

    def _left_of(self, message: Any) -> Any:
        """Write a message, or its start, without waiting. Returns what the writing thread has to write."""
        if not self._is_whole(message):
            return message
        try:
            content = ForkingPickler.dumps(message)
            if len(content) > _DIRECT_BYTES_MAX:
                return message
            frame = _SIZE.pack(len(content)) + content
            sent = self._socket.send(frame, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except Exception:  # the socket is full, or the writing thread meets the same error
            return message
        return _Frame(frame[sent:]) if sent < len(frame) else None

    def _is_whole(self, message: Any) -> bool:  # noqa: ARG002
        """Whether nothing follows the message."""
        return True

    def _transmit(self, connection: Connection, message: Any) -> None:
        """Write one message. Runs in the writing thread, once the process has started."""
        connection.send(message)

    def _readable(self) -> None:
        try:
            data = os.read(self._connection.fileno(), _READ_BYTES)  # does not block, because there is something
            if not data:
                self._end(read_to_end=not self._received)
                return
            self._received += data
            while (found := _frame(self._received)) is not None:
                start, end = found
                if end > len(self._received):
                    if end > _READ_BYTES:
                        self._in_thread(self._read_large, bytes(self._received[start:]), end - start)
                        self._received.clear()
                    return
                message = pickle.loads(bytes(memoryview(self._received)[start:end]))  # noqa: S301 - our own process
                del self._received[:end]
                self._loop.call_soon(self._on_message, message)
        except ConnectionResetError:
            self._end(read_to_end=True)
        except Exception:  # a message that cannot be read
            self._end(read_to_end=False)

    def _in_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        """Read nothing more on the event loop, and do this in a thread."""
        self._loop.remove_reader(self._connection.fileno())
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _read_large(self, begun: bytes, size: int) -> None:
        """Read the rest of a message of so many bytes."""
        try:
            whole = bytearray(size)
            whole[: len(begun)] = begun
            left = memoryview(whole)[len(begun) :]
            while left:
                if not (count := os.readv(self._connection.fileno(), [left])):
                    raise EOFError
                left = left[count:]
            message = pickle.loads(whole)  # noqa: S301 - our own process
        except Exception:  # the message was cut off by the process's death, or cannot be read
            self._reap()
            return
        self._call(self._read_on, message)

    def _read_on(self, message: Any) -> None:
        self._loop.call_soon(self._on_message, message)
        self._loop.add_reader(self._connection.fileno(), self._readable)

    def _end(self, *, read_to_end: bool) -> None:
        self.read_to_end = read_to_end
        self._in_thread(self._reap)

    def _reap(self) -> None:
        self.kill()
        self._wait()
        self._outbox.put(None)
        self._socket.close()
        self._call(self._on_death)

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            return  # the loop is closed


class _Frame(bytes):
    """The end of a message as it is written."""


def _frame(received: bytearray) -> tuple[int, int] | None:
    """Where the first message begins and ends, as `multiprocessing.connection` writes it; None before that is known."""
    if len(received) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack_from(received)
    if size != -1:
        return _SIZE.size, _SIZE.size + size
    start = _SIZE.size + _LARGE_SIZE.size
    if len(received) < start:
        return None
    (size,) = _LARGE_SIZE.unpack_from(received, _SIZE.size)
    return start, start + size
