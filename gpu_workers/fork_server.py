"""Child processes: workers of the local engine and jobs, the messages with them, and the fork server that starts them.

The fork server is a child that has imported what workers and jobs need, and forks them.

Importing torch and building the recognisers takes seconds of a processor. The fork server does each of them once, and
its forks share the memory. It is a fresh process with the environment of `child_environment`, so neither it nor a fork
holds a secret of the gateway. Only the process that started it, and those that inherit a connection from that one, can
ask it for a fork.

A fork is no child of the gateway. The gateway holds a file descriptor that refers to the process and to no later one
with its number, by which it waits for it and ends it.

Guarantee of the environment: a variable reaches a child process only if its name is in `NAMES` or starts with one of
`PREFIXES`. None of them holds a secret by its documented use.
"""

import asyncio
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol

NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM", "ATEN_CPU_CAPABILITY", "LD_PRELOAD",
    }
)  # fmt: skip
PREFIXES = (
    "LC_", "PYTHON", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "MALLOC_", "CUDA_", "CUBLAS_",
    "NVIDIA_", "NCCL_", "TORCH_", "PYTORCH_",
)  # fmt: skip


def allowed(name: str) -> bool:
    """Whether a child process may have this variable."""
    return name in NAMES or name.startswith(PREFIXES)


def child_environment() -> dict[str, str]:
    """Return the part of this process's environment that a child process may have."""
    return {name: value for name, value in os.environ.items() if allowed(name)}


def drop_other_variables() -> None:
    """Remove every other variable from this process, for children that inherit its environment as it is.

    `multiprocessing` starts such children: its workers and its resource tracker. Call this once the settings were read.
    """
    for name in list(os.environ):
        if not allowed(name):
            del os.environ[name]


MODULE = "gpu_workers.fork_server_process"
MESSAGE_BYTES_MAX = 64 * 1024
# OMP_WAIT_POLICY: OpenMP threads that spin at a barrier compete with the front end and Redis for the cores. On two busy
# cores, a small batch took 1900 ms with spinning threads and 55 ms with sleeping ones.
# MKL_CBWR: with this setting, MKL's float32 products round in the same way for any number of rows, at the same speed.
# Without it, the rounding depends on the number of rows on Intel processors, and the encoder has to pad its batches.
# Intel documents this for the number of threads and for alignment. The encoder's self-check measures it for the number
# of rows.
WORKER_ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "MKL_CBWR": "AUTO,STRICT"}


class Process(Protocol):
    """A process that was started, as `subprocess.Popen` and `Forked` are."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None:
        """End it, if it has not ended."""

    def wait(self, timeout: float | None = None) -> object:
        """Return once it has ended. Raises subprocess.TimeoutExpired."""


class Forked:
    """A process that a fork server has started."""

    def __init__(self, pid: int, descriptor: int) -> None:
        """`descriptor`: a file descriptor of the process."""
        self.pid = pid
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        ended = select.poll()
        ended.register(self._descriptor, select.POLLIN)
        if not ended.poll(None if timeout is None else 1000 * timeout):
            raise subprocess.TimeoutExpired(MODULE, timeout or 0)


class ForkServer:
    """Forks one process after another. Thread-safe. If its process has died, the next call starts another one."""

    def __init__(self, preload: Sequence[str] = (), *, connection: socket.socket | None = None) -> None:
        """`preload`: what to import when nothing else is asked for, as `gpu_workers.fork_server_process` says.
        `connection`: of another process's `connect`, to be used while that fork server lives."""
        self._preload = list(preload)
        self._lock = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = connection or self._start()

    def _start(self) -> socket.socket:
        ours, theirs = _pair()
        with theirs:
            command = [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), *self._preload]
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=WORKER_ENVIRONMENT | child_environment(),
            )
        return ours

    def connect(self) -> socket.socket:
        """Another connection to its process, for a child that inherits it. Raises OSError."""
        ours, theirs = _pair()
        with theirs:
            self._ask({}, theirs.fileno())
        return ours

    def fork(self, module: str, arguments: Sequence[str], channel: int, *, preload: Sequence[str] = ()) -> Forked:
        """Start a process that runs `main` of `module`, with the arguments and a copy of the file descriptor `channel`
        in `sys.argv`, after `preload` was imported.

        Raises OSError. There may be a process nevertheless, which has the channel: close its other end, or shut it
        down, and use neither again.
        """
        request = {"module": module, "arguments": list(arguments), "preload": list(preload)}
        answer, descriptors = self._ask(request, channel)
        if len(descriptors) != 1:
            raise ConnectionResetError("the fork server could not start a process")
        return Forked(int(answer), descriptors[0])

    def _ask(self, request: dict[str, Any], channel: int) -> tuple[bytes, list[int]]:
        message = json.dumps(request).encode()
        with self._lock:
            try:
                return self._answer_to(message, channel)
            except ConnectionError:  # it had ended, or ended without having read the request
                self._end()
                if self._closed:
                    raise
                self._socket = self._start()
                return self._answer_to(message, channel)

    def _answer_to(self, request: bytes, channel: int) -> tuple[bytes, list[int]]:
        """Raises ConnectionError only where the request was not read: Linux resets a connection whose other end was
        closed with an unread message. After a request that was read the answer is empty, and it is not sent again,
        lest there be two processes."""
        if self._closed:
            raise ConnectionResetError("the fork server was ended")
        socket.send_fds(self._socket, [request], [channel])
        answer, descriptors, *_ = socket.recv_fds(self._socket, MESSAGE_BYTES_MAX, 1)
        return answer, descriptors

    def close(self) -> None:
        """End it, or this connection to that of another process. The processes that it has forked live on until their
        own channels close."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends a call that waits
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


_of_this_process: ForkServer | None = None


def start_fork_server(preload: Sequence[str] = (), *, connection: socket.socket | None = None) -> None:
    """Let `start_process` use a fork server in this process from now on, where the system can refer to processes by
    file descriptors (Linux) and permits it. A second call changes nothing. `connection`: of `connect_fork_server`."""
    global _of_this_process
    if _of_this_process is None and _can_refer_to_processes():
        _of_this_process = ForkServer(preload, connection=connection)


def has_fork_server() -> bool:
    """Whether this process uses a fork server."""
    return _of_this_process is not None


def connect_fork_server() -> socket.socket | None:
    """A connection to the fork server of this process, for a child that inherits it; None if there is none. Raises
    OSError."""
    return None if _of_this_process is None else _of_this_process.connect()


def _can_refer_to_processes() -> bool:
    try:
        descriptor = os.pidfd_open(os.getpid())
    except (AttributeError, OSError):
        return False
    try:
        signal.pidfd_send_signal(descriptor, 0)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def end_fork_server() -> None:
    """End the fork server of this process, if there is one."""
    global _of_this_process
    server, _of_this_process = _of_this_process, None
    if server is not None:
        server.close()


def start_process(module: str, arguments: Sequence[str], channel: int, *, preload: Sequence[str] = ()) -> Process:
    """Start a process that runs `python -P -m MODULE ARGUMENTS... CHANNEL`: a fork of the fork server, if there is
    one. Raises OSError.

    `-P` prevents a folder `core` in the working directory from shadowing the package.
    """
    if _of_this_process is not None:
        return _of_this_process.fork(module, arguments, channel, preload=preload)
    return subprocess.Popen(  # noqa: S603 - our own module, no shell
        [sys.executable, "-P", "-m", module, *arguments, str(channel)],
        pass_fds=[channel],
        stdin=subprocess.DEVNULL,
        env=WORKER_ENVIRONMENT | child_environment(),
    )


class ChildProcess:
    """A process of `start_process`, which receives `first`. Starts after construction, in a thread.

    Reads and writes on a pipe block, so each process has one reading and one writing thread, which pass everything they
    receive to the event loop. The threads share no state except the two queues. `on_message` and `on_death` are called
    on the event loop. No callback follows `on_death`.
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
        with suppress(TimeoutError):  # a child of its own may hold the socket open
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
            with suppress(OSError):
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
