"""The process of a fork server: `python -P -m gpu_workers.fork_server_process FD PRELOAD...`.

It receives requests over an inherited socket and answers each with the number and a file descriptor of a new process. A
request without a module brings a further connection. It exits when all connections have closed.

A preload is a module to import, or `module:function` to call as well, once. None may start a thread, use a device,
compute with torch, or draw randomness: a fork would have it in an unusable state, or in the state that another fork
has. Noise comes from `os.urandom`, at the moment of the draw. The threads that OpenBLAS starts at import are the one
exception: it stops them before a fork and starts them again.
"""

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from setproctitle import setproctitle

from gpu_workers.fork_server import MESSAGE_BYTES_MAX

_IGNORED = (signal.SIGINT, signal.SIGTERM)  # they are for the gateway, which closes the socket
_loaded: set[str] = set()


def load(preload: Sequence[str]) -> None:
    """Import each module once. A failure shows where the module is used: in the forked process."""
    for name in preload:
        if name in _loaded:
            continue
        _loaded.add(name)
        module, _, function = name.partition(":")
        with suppress(Exception):
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()


def reap(*_: object) -> None:
    """Let the system forget the processes that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def forked(
    connections: Iterable[socket.socket], module: str, arguments: Sequence[str], channel: int
) -> tuple[int, int]:
    """Fork a process that runs `main` of `module`. Returns its number and a file descriptor of it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # until then, its number is its own
    gc.freeze()  # the collector of the fork would write to every object, so that none of them would be shared
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # about the threads of OpenBLAS
        pid = os.fork()
    if pid == 0:
        run(connections, module, arguments, channel)
    try:
        return pid, os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def run(connections: Iterable[socket.socket], module: str, arguments: Sequence[str], channel: int) -> NoReturn:
    """Run in the forked process."""
    code = 1
    try:
        gc.enable()
        for connection in connections:
            connection.close()
        for number in (signal.SIGCHLD, *_IGNORED):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        sys.argv = [module, *arguments, str(channel)]
        setproctitle(" ".join([sys.executable, "-P", "-m", *sys.argv]))
        code = importlib.import_module(module).main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


class Server:
    """Answers the requests of all connections, one after another."""

    def __init__(self, first: socket.socket) -> None:
        self._connections: dict[int, socket.socket] = {}
        self._requests = select.poll()
        self._add(first)

    def serve(self, preload: list[str]) -> None:
        """Return when every connection has closed. Preload while there is no request."""
        while self._connections:
            ready = self._requests.poll(0 if preload else None)
            if not ready:
                load([preload.pop(0)])
            for number, _ in ready:
                self._read(number)

    def _add(self, connection: socket.socket) -> None:
        self._connections[connection.fileno()] = connection
        self._requests.register(connection, select.POLLIN)

    def _read(self, number: int) -> None:
        message, descriptors = b"", list[int]()
        with suppress(ConnectionError):
            message, descriptors, *_ = socket.recv_fds(self._connections[number], MESSAGE_BYTES_MAX, 1)
        if not message:
            self._requests.unregister(number)
            self._connections.pop(number).close()
            return
        request = json.loads(message)
        pid, answer = 0, list[int]()  # no descriptor if there is none left
        for channel in descriptors:
            if "module" not in request:
                self._add(socket.socket(fileno=channel))
                continue
            load(request["preload"])
            with suppress(OSError):
                pid, descriptor = forked(self._connections.values(), request["module"], request["arguments"], channel)
                answer.append(descriptor)
            os.close(channel)
        with suppress(ConnectionError):  # nobody waits any more, and the process ends with its channel
            socket.send_fds(self._connections[number], [str(pid).encode()], answer)
        for descriptor in answer:
            os.close(descriptor)


def main() -> None:
    gc.disable()  # what is loaded stays
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, reap)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    Server(socket.socket(fileno=int(sys.argv[1]))).serve(sys.argv[2:])


if __name__ == "__main__":
    main()
