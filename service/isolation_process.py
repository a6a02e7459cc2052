"""The process of `service.isolation`: `python -m service.isolation_process FD`.

It receives its limits over one inherited socket, then functions with their arguments, and sends one `IsolatedAnswer`
for each. It exits when the socket closes. Text stays in its memory: it writes nothing, sends an error without a
message, and disables core dumps.
"""

import contextlib
import importlib
import logging
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from core.errors import TaskFailed
from core.guarded import guarded
from core.memory import limit_memory, trim
from service.isolation import IsolatedAnswer, Reached, WorkLimits

_NICENESS = 5  # the front end and Redis go first
_GRACE_S = 1.0  # for the function to stop by itself, before the system ends the process


def load() -> None:
    """Import what most functions use, for a fork server."""
    for module in ("core.text.formats.builder", "core.text.own_recognisers.recogniser"):
        importlib.import_module(module)


def run(function: Callable[..., Any], arguments: tuple[Any, ...], limits: WorkLimits) -> IsolatedAnswer:
    """Run one function within its time. `limit_memory` has limited the memory of the process.

    A timer stops Python code. Code of a library that holds the interpreter is ended by the system, with the process.
    """
    began = time.process_time()
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(began + limits.cpu_s + _GRACE_S), most))
    result: Any
    try:
        signal.setitimer(signal.ITIMER_PROF, limits.cpu_s)
        try:
            result = guarded(function, *arguments)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except KeyboardInterrupt:  # of the timer: no handler of `Exception` in a library catches it
        result = Reached.TIME
    if isinstance(result, TaskFailed) and result.reason == MemoryError.__name__:
        result = Reached.MEMORY
    return IsolatedAnswer(result, time.process_time() - began, is_last=isinstance(result, Reached))


def serve(connection: Connection) -> NoReturn:
    """Run functions until the socket closes, which raises EOFError, or until one has reached a limit."""
    limits: WorkLimits = connection.recv()
    limit_memory(limits.memory_bytes)
    while True:
        try:
            function, arguments = connection.recv()
            answer = run(function, arguments, limits)
            del function, arguments
            connection.send(answer)
        except MemoryError:  # of what is read or written
            answer = IsolatedAnswer(Reached.MEMORY, 0.0, is_last=True)
            connection.send(answer)
        if answer.is_last:
            sys.exit(0)
        del answer
        trim()


def main() -> int:
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C signals the gateway, which closes the socket
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)  # a log record of a library may hold text
    with contextlib.closing(Connection(int(sys.argv[1]))) as connection:
        try:
            serve(connection)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return 0
        except Exception as error:
            sys.stderr.write(f"privacy-gateway isolation {os.getpid()}: {type(error).__name__}\n")
            return 1


if __name__ == "__main__":
    sys.exit(main())
