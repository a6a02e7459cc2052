"""Starts commands as forks of a process that has imported what they need, which saves seconds of a processor each.

A forked command runs the same code with the same arguments, environment, folder and output. It differs from one that
was started in what `/proc` shows: its environment, and libraries that it does not use. A test of these starts a
process of its own, and so does a script that changes a module before others import it.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from gpu_workers.fork_server import WORKER_ENVIRONMENT

SERVER = Path(__file__).with_name("preloaded_server.py")
# set when a library is loaded or a process begins, so that a fork cannot have another value
_FIXED = ("OMP_", "MKL_", "OPENBLAS_", "MALLOC_", "ATEN_", "DNNL_", "ONEDNN_", "CUDA_", "LD_", "PYTHON", "TORCH", "HF_")
# without settings; before a test changes it
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PRIVACY_GATEWAY_")}
_lock = threading.Lock()
_server: tuple[socket.socket, subprocess.Popen[bytes], dict[str, str]] | None = None


class Forked:
    """A command that was forked. As `subprocess.Popen`, as far as the tests use it."""

    def __init__(self, pid: int, args: Sequence[str], status: socket.socket | IO[bytes]) -> None:
        self.pid = pid
        self.args = args
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, as `Popen.wait`. Raises subprocess.TimeoutExpired."""
        with self._lock:
            if self.returncode is None:
                if not select.select([self._status], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
                self.returncode = int(self._status.readline())
                self._status.close()
            return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _fixed(environment: Mapping[str, str]) -> dict[str, str]:
    return WORKER_ENVIRONMENT | {name: value for name, value in environment.items() if name.startswith(_FIXED)}


def _end() -> None:
    if _server is not None:
        channel, process, _ = _server
        channel.close()
        process.wait()


def _started() -> tuple[socket.socket, dict[str, str]]:
    """The channel to the process that forks, and the variables that it began with."""
    global _server
    if _server is None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, str(SERVER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=WORKER_ENVIRONMENT | _ENVIRONMENT,
            )
        _server = ours, process, _fixed(_ENVIRONMENT)
        atexit.register(_end)
    return _server[0], _server[2]


def start(
    command: Sequence[str], *, env: Mapping[str, str], output: IO[bytes], errors: IO[bytes], folder: Path | None = None
) -> Forked | subprocess.Popen[bytes]:
    """Start a command or script of this interpreter: a fork where the environment permits it, otherwise a process of
    its own."""
    with _lock:
        channel, fixed = _started()
        if _fixed(env) != fixed or Path(command[0]).parent != Path(sys.executable).parent:
            return subprocess.Popen(list(command), stdout=output, stderr=errors, env=dict(env), cwd=folder)
        request = {"command": list(command), "environment": dict(env), "folder": str(folder or Path.cwd())}
        read, write = os.pipe()
        socket.send_fds(channel, [json.dumps(request).encode()], [write, output.fileno(), errors.fileno()])
        os.close(write)
    status = os.fdopen(read, "rb", buffering=0)
    pid = int(status.readline())
    return Forked(pid, command, status)
