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
from contextlib import suppress
from pathlib import Path
from typing import IO

from gpu_workers.fork_server import WORKER_ENVIRONMENT

SERVER = Path(__file__).with_name("preloaded_server.py")
# set when a library is loaded or a process begins, so that a fork cannot have another value
_FIXED = (
    *("OMP_", "MKL_", "OPENBLAS_", "MALLOC_", "ATEN_", "DNNL_", "ONEDNN_", "CUDA_", "LD_", "PYTHON", "TORCH", "HF_"),
    *("NUMBA_", "TOKENIZERS_", "TRANSFORMERS_", "OTEL_", "TZ"),
)
_END_S = 30
# without settings; before a test changes it
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PRIVACY_GATEWAY_")}
_lock = threading.Lock()
_server: tuple[socket.socket, subprocess.Popen[bytes]] | None = None


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
                self.returncode = int(self._status.readline() or -signal.SIGKILL)  # nothing: its keeper was killed
                self._status.close()
            return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _fixed(environment: Mapping[str, str]) -> dict[str, str]:
    return WORKER_ENVIRONMENT | {name: value for name, value in environment.items() if name.startswith(_FIXED)}


def _end() -> None:
    if _server is not None:
        channel, process = _server
        channel.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:  # another process holds the channel
            process.kill()


def _started() -> socket.socket:
    """The channel to the process that forks."""
    global _server
    if _server is None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, str(SERVER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # a process that outlives the tests must not hold theirs
                env=WORKER_ENVIRONMENT | _ENVIRONMENT,
            )
        _server = ours, process
        atexit.register(_end)
    return _server[0]


def start(
    command: Sequence[str], *, env: Mapping[str, str], output: IO[bytes], errors: IO[bytes], folder: Path | None = None
) -> Forked | subprocess.Popen[bytes]:
    """Start a command or script of this interpreter: a fork where the environment permits it, otherwise a process of
    its own."""
    if _fixed(env) != _fixed(_ENVIRONMENT) or Path(command[0]).parent != Path(sys.executable).parent:
        return subprocess.Popen(list(command), stdout=output, stderr=errors, env=dict(env), cwd=folder)
    sys.audit("subprocess.Popen", command[0], list(command), folder, None)  # it starts a process as others do
    with _lock:
        channel = _started()
        request = {"command": list(command), "environment": dict(env), "folder": str(folder or Path.cwd())}
        read, write = os.pipe()
        socket.send_fds(channel, [json.dumps(request).encode()], [write, output.fileno(), errors.fileno()])
        os.close(write)
    status = os.fdopen(read, "rb", buffering=0)
    pid = int(status.readline())
    return Forked(pid, command, status)
