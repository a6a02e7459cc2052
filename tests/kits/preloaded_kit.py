"""Starts commands as forks of a process that has imported what they need, which saves seconds of a processor each.

A forked command runs the same code with the same arguments, environment, folder and output. It differs from one that
was started in what `/proc` shows: its environment, and libraries that it does not use. A test of these starts a
process of its own, and so does a script that changes a module before others import it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO
from unittest import mock

import constants_kit

from gpu_workers import fork_server

COMMAND = "preloaded_command"
PRELOAD = [f"{COMMAND}:load"]
# set when a library is loaded or a process begins, so that a fork cannot have another value
_FIXED = (
    *("OMP_", "MKL_", "OPENBLAS_", "MALLOC_", "ATEN_", "DNNL_", "ONEDNN_", "CUDA_", "LD_", "PYTHON", "TORCH", "HF_"),
    *("NUMBA_", "TOKENIZERS_", "TRANSFORMERS_", "OTEL_", "TZ"),
)
# without settings; before a test changes it
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PRIVACY_GATEWAY_")}


class Forked:
    """A command that was forked. As `subprocess.Popen`, as far as the tests use it; how it ended is not known."""

    def __init__(self, process: fork_server.Forked) -> None:
        self.pid = process.pid
        self.kill = process.kill
        self.wait = process.wait

    def poll(self) -> str | None:
        try:
            self.wait(0)
        except subprocess.TimeoutExpired:
            return None
        return "it has ended"

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def as_started(environment: Mapping[str, str]) -> dict[str, str]:
    """This environment with the variables that are fixed as this process has got them: libraries set some later."""
    others = {name: value for name, value in environment.items() if not name.startswith(_FIXED)}
    return others | {name: value for name, value in _ENVIRONMENT.items() if name.startswith(_FIXED)}


def _fixed(environment: Mapping[str, str]) -> dict[str, str]:
    chosen = {name: value for name, value in environment.items() if name.startswith(_FIXED)}
    return fork_server.WORKER_ENVIRONMENT | chosen


@cache
def _server() -> fork_server.ForkServer:
    """The process that forks."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), _ENVIRONMENT.get("PYTHONPATH")]))
    with mock.patch.dict(os.environ, _ENVIRONMENT | {"PYTHONPATH": path}, clear=True):
        return fork_server.ForkServer(PRELOAD)


def start(
    command: Sequence[str], *, env: Mapping[str, str], output: IO[bytes], errors: IO[bytes], folder: Path | None = None
) -> Forked | subprocess.Popen[bytes]:
    """Start a command or script of this interpreter: a fork where the environment permits it, otherwise a process of
    its own."""
    if _fixed(env) != _fixed(_ENVIRONMENT) or Path(command[0]).parent != Path(sys.executable).parent:
        # a script changes constants itself; the installed command has no means to
        assert constants_kit.VARIABLE not in env or command[0] == sys.executable
        return subprocess.Popen(list(command), stdout=output, stderr=errors, env=dict(env), cwd=folder)
    sys.audit("subprocess.Popen", command[0], list(command), folder, None)  # it starts a process as others do
    request = {"command": list(command), "environment": dict(env), "folder": str(folder or Path.cwd())}
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(ours, [json.dumps(request).encode()], [output.fileno(), errors.fileno()])
        return Forked(_server().fork(COMMAND, [], theirs.fileno(), preload=PRELOAD))
