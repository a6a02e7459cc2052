"""The worker process: `python -m gpu_workers.engine.local.worker ROLE FD`.

It communicates over one inherited socket: it receives the factory of its handler, sends `Ready`, then receives batches
and sends results. It exits when the socket closes, so it never outlives its gateway. Request text stays in its memory:
the process writes nothing, sends a handler's exception as a code without a message, and disables core dumps.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import NoReturn

from core.memory import trim
from gpu_workers.engine.handler import HandlerFactory, load_failure, run_batch, set_pause
from gpu_workers.engine.local.messages import Batch, Begun, Done, Failed, Ready, Stage
from gpu_workers.engine.local.turns import Turns
from gpu_workers.engine.shared_memory import receive_blocks

# The front end and Redis go first: they are what the next batch waits for. Jobs go last.
_NICENESS = 5


class LoadFailed(Exception):
    """The worker could not be made ready. The cause holds the reason."""


def serve(connection: Connection) -> NoReturn:
    """Load the handler, then run batches until the socket closes, which raises EOFError."""
    factory: HandlerFactory = connection.recv()
    connection.send(Stage("importing"))
    try:
        handler = factory()
        connection.send(Stage("loading models"))
        facts = handler.warm_up()
    except Exception as error:
        connection.send(Failed(load_failure(error)))
        raise LoadFailed from error
    # What was loaded stays: the collector would visit it, for tens of milliseconds, while requests wait.
    gc.collect()
    gc.freeze()
    trim()  # loading a model frees more memory than a batch needs
    connection.send(Ready(facts))

    def run_next() -> None:
        batch: Batch = connection.recv()
        receive_blocks(connection, batch.blocks)
        if batch.says_begun:
            connection.send(Begun(batch.batch_id))
        started, suspended = time.perf_counter(), turns.suspended_s
        results = run_batch(handler, batch.payloads, turns)
        seconds = time.perf_counter() - started - (turns.suspended_s - suspended)
        connection.send(Done(batch.batch_id, results, seconds))

    turns = Turns(connection.poll, run_next)
    set_pause(turns.pause)
    while True:
        run_next()


def main() -> int:
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C signals the gateway, which closes the socket
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)  # a log record of a library may hold text
    role, fd = sys.argv[1], int(sys.argv[2])
    with contextlib.closing(Connection(fd)) as connection:
        try:
            serve(connection)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return 0
        except LoadFailed as error:
            # No request has been read yet, so the operator may see the whole traceback.
            traceback.print_exception(error.__cause__)
            return 1
        except Exception as error:
            # After loading, write only the type: a message could hold text.
            sys.stderr.write(f"privacy-gateway {role} worker {os.getpid()}: {type(error).__name__}\n")
            return 1


if __name__ == "__main__":
    sys.exit(main())
