"""What `preloaded_kit` forks: a command that arrives over a channel, and runs as the interpreter runs it.

A command has no thread, device or random state of the process that it is a fork of: the rules for preloads in
`gpu_workers/fork_server_process.py` hold.
"""

import atexit
import json
import os
import runpy
import signal
import socket
import sys
import threading
import warnings
from pathlib import Path
from typing import NoReturn

import constants_kit
from setproctitle import setproctitle

from gpu_workers import fork_server, fork_server_process
from gpu_workers.fork_server import child_environment

MESSAGE_BYTES_MAX = 256 * 1024
COMMANDS = ("service.serve", "service.cli.main", "service.config.settings")
JOBS = (
    "gpu_workers.jobs.process",
    "gpu_workers.domains.build_pack",
    "gpu_workers.finetune.training",
    "gpu_workers.infill.fine_tuning",
    "gpu_workers.synthesis.reconstruction",
    "gpu_workers.synthesis.report",
    # what these import inside functions
    "peft",
    "scipy.linalg",
    "sklearn.cluster",
    "sklearn.metrics",
    "torch._dynamo",
)
_start_anew = fork_server.ForkServer._start
_forked_one = False


def load() -> None:
    """Import what a gateway, its workers and its jobs import, and let its fork server be a fork, too."""
    from service.config.settings import Settings
    from service.config.worker_options import preloads

    fork_server_process.load([*COMMANDS, *preloads(Settings()), *JOBS])
    fork_server.ForkServer._start = _start  # type: ignore[method-assign]


def main() -> int:
    """Run a command in this process."""
    with socket.socket(fileno=int(sys.argv[-1])) as channel:
        message, outputs, *_ = socket.recv_fds(channel, MESSAGE_BYTES_MAX, 2)
    for target, descriptor in zip((1, 2), outputs, strict=True):
        os.dup2(descriptor, target)
        os.close(descriptor)
    request = json.loads(message)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    constants_kit.change_for_good()
    command: list[str] = request["command"]
    setproctitle(" ".join(command))
    sys.argv = command[1:] if command[0] == sys.executable else command
    kits = str(Path(__file__).parent)  # on the path of this process, and of the command if its environment says so
    chosen = kits in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [str(Path(sys.argv[0]).parent), *(path for path in sys.path if chosen or path != kits)]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        return 0
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()


def _start(self: fork_server.ForkServer) -> socket.socket:
    """The first fork server of a command is a fork of it, which has loaded everything. A later one starts by itself:
    the command may have threads by then."""
    global _forked_one
    if _forked_one:
        return _start_anew(self)
    _forked_one = True
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # about the threads of OpenBLAS
        pid = os.fork()
        if pid == 0:
            _become_fork_server(theirs.fileno(), self._preload)
    self._process = fork_server.Forked(pid, os.pidfd_open(pid))  # type: ignore[assignment]
    return ours


def _become_fork_server(descriptor: int, names: list[str]) -> NoReturn:
    try:
        os.closerange(3, descriptor)
        os.closerange(descriptor + 1, 1024)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        environment = fork_server.WORKER_ENVIRONMENT | child_environment()
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [fork_server.MODULE, str(descriptor), *names]
        setproctitle(" ".join([sys.executable, "-P", "-m", *sys.argv]))
        fork_server_process.main()
    finally:
        os._exit(0)
