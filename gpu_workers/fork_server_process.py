"""The process of a fork server: `python -P -m gpu_workers.fork_server_process FD PRELOAD...`.

It receives requests over one inherited socket and answers each with the number and a file descriptor of a new process.
It exits when the socket closes.

A preload is a module to import, or `module:function` to call as well, once. None may start a thread, use a device,
compute with torch, or draw randomness: a fork would have it in an unusable state, or in the state that another fork
has. Noise comes from `os.urandom`, at the moment of the draw. The threads that OpenBLAS starts at import are the one
exception: it stops them before a fork and starts them again.
"""

from __future__ import annotations

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
from collections.abc import Sequence
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


def forked(server: socket.socket, module: str, arguments: Sequence[str], channel: int) -> tuple[int, int]:
    """Fork a process that runs `main` of `module`. Returns its number and a file descriptor of it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # until then, its number is its own
    gc.freeze()  # the collector of the fork would write to every object, so that none of them would be shared
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # about the threads of OpenBLAS
        pid = os.fork()
    if pid == 0:
        run(server, module, arguments, channel)
    descriptor = os.pidfd_open(pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    return pid, descriptor


def run(server: socket.socket, module: str, arguments: Sequence[str], channel: int) -> NoReturn:
    """Run in the forked process."""
    code = 1
    try:
        gc.enable()
        server.close()
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


def serve(server: socket.socket, preload: list[str]) -> NoReturn:
    """Answer requests until the socket closes; preload while there are none."""
    requests = select.poll()
    requests.register(server, select.POLLIN)
    while True:
        while preload and not requests.poll(0):
            load([preload.pop(0)])
        message, descriptors, *_ = socket.recv_fds(server, MESSAGE_BYTES_MAX, 1)
        if not message:
            sys.exit(0)
        request = json.loads(message)
        load(request["preload"])
        (channel,) = descriptors
        pid, descriptor = forked(server, request["module"], request["arguments"], channel)
        os.close(channel)
        socket.send_fds(server, [str(pid).encode()], [descriptor])
        os.close(descriptor)


def main() -> NoReturn:
    gc.disable()  # what is loaded stays
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, reap)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    with socket.socket(fileno=int(sys.argv[1])) as server:
        serve(server, sys.argv[2:])


if __name__ == "__main__":
    main()
