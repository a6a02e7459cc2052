"""The process from which `preloaded_kit` forks commands: `python preloaded_server.py FD`.

It imports what a gateway and its fork server import, and then forks a command for each request. A command has no
thread, device or random state of this process: the rules for preloads in `gpu_workers/fork_server_process.py` hold.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

sys.path.pop(0)  # this folder: a command has its own

from setproctitle import setproctitle

from gpu_workers import fork_server, fork_server_process
from gpu_workers.environment import child_environment

MESSAGE_BYTES_MAX = 256 * 1024
COMMANDS = ("service.serve", "service.cli.main", "service.config.settings")
JOBS = (
    "gpu_workers.jobs.process",
    "gpu_workers.domains.build_pack",
    "gpu_workers.finetune.tuning",
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
_signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)}


def preload() -> None:
    from service.config.settings import Settings
    from service.config.worker_options import preloads

    for name in COMMANDS:
        importlib.import_module(name)
    fork_server_process.load([*preloads(Settings()), *JOBS])


def fork() -> int:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # about the threads of OpenBLAS
        return os.fork()


def run(request: dict[str, Any]) -> NoReturn:
    """Run a command in this process, as the interpreter does, and end it."""
    code = 1
    try:
        gc.enable()
        for number, action in _signals.items():
            signal.signal(number, action)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        command: list[str] = request["command"]
        setproctitle(" ".join(command))
        sys.argv = command[1:] if command[0] == sys.executable else command
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as error:
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
        code = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(Exception):
            threading._shutdown()
        with suppress(Exception):
            atexit._run_exitfuncs()
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 255)


_start_anew = fork_server.ForkServer._start
_forked_one = False


def _start(self: fork_server.ForkServer) -> socket.socket:
    """The first fork server of a command is a fork of it, which has loaded everything. A later one starts by itself:
    the command may have threads by then."""
    global _forked_one
    if _forked_one:
        return _start_anew(self)
    _forked_one = True
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        pid = fork()
        if pid == 0:
            _become_fork_server(theirs.fileno(), self._preload)
    self._process = fork_server.Forked(pid, os.pidfd_open(pid))  # type: ignore[assignment]
    return ours


def _become_fork_server(descriptor: int, names: list[str]) -> NoReturn:
    code = 1
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
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0
    finally:
        os._exit(code)


def keep(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """The parent of one command: reports its number, waits for its end, and reports how it ended."""
    status, output, errors = descriptors
    pid = fork()
    if pid == 0:
        os.close(status)
        for target, descriptor in ((1, output), (2, errors)):
            os.dup2(descriptor, target)
        for descriptor in {output, errors} - {1, 2}:
            os.close(descriptor)
        run(request)
    os.close(output)
    os.close(errors)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.write(status, f"{pid}\n".encode())
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # its number is not given to another process yet
    assert ended is not None
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    with suppress(BrokenPipeError):
        os.write(status, f"{code}\n".encode())
    os.waitpid(pid, 0)
    os._exit(0)


def main() -> None:
    setproctitle(" ".join([sys.executable, *sys.argv]))  # it finds its place in memory by the environment as it is
    gc.disable()  # what is loaded stays
    with socket.socket(fileno=int(sys.argv[1])) as server:
        preload()
        fork_server.ForkServer._start = _start  # type: ignore[method-assign]
        gc.collect()
        gc.freeze()  # the collector of a fork would write to every object, so that none of them would be shared
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, fork_server_process.reap)
        while True:
            message, descriptors, *_ = socket.recv_fds(server, MESSAGE_BYTES_MAX, 3)
            if not message:
                return
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            pid = fork()
            if pid == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
                keep(json.loads(message), list(descriptors))
            for descriptor in descriptors:
                os.close(descriptor)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


if __name__ == "__main__":
    main()
