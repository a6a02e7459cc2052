"""The worker process: `python -m gpu_workers.engine.local.worker ROLE FD`.

It speaks over one inherited socket: options in, `Ready` out, then batches in and results out. It ends when the
socket closes, so that it never outlives its gateway. Request text is in its memory only: nothing is written, an
exception of a handler leaves as a code without a message, core dumps are off.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, Protocol

from core.errors import GatewayError, Started, TaskFailed
from core.guarded import guarded
from gpu_workers.engine.local.shared_memory import receive_blocks
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers.options import INFILL_OFF, Batch, Done, Failed, Ready, Stage, UnfitDevice, WorkerOptions

Draw = Callable[[], Sequence[Any]]


class Handler(Protocol):
    """What a role does. Loading happens in `warm_up`, which ends with a canary that must come out right.

    A batch is run in two steps. `prepare` reads, encodes and recognises, and draws nothing: what fails in it may be
    prepared again. It returns the draw, which is called once and gives a result or a `GatewayError` for each task, in
    order. **A task has drawn once its draw has been called**: whatever happens after that, it is never drawn again.
    Work that draws nothing may still be repeated inside a draw, such as a question to a language model.
    """

    def warm_up(self) -> dict[str, Any]: ...

    def prepare(self, tasks: Sequence[Any]) -> Draw: ...


class LoadFailed(Exception):
    """The worker could not be made ready; its cause says why."""


def make_handler(role: Role, options: WorkerOptions) -> Handler:
    """Import and build the handler of a role (here, so that each process imports only what it runs)."""
    if role is Role.EMBED:
        from gpu_workers.embedder import Embedder

        return Embedder(options)
    from gpu_workers.sanitiser import Sanitiser

    return Sanitiser(
        allow_list_dir=Path(options.allow_lists_dir) if options.allow_lists_dir else None,
        tagger=options.tagger,
        infill=options.infill if role is Role.FILL else INFILL_OFF,
        fill_slots_max=options.fill_slots_max,
        infill_models_loaded_max=options.infill_models_loaded_max,
        device=options.device,
        threads=options.threads,
    )


def run_batch(handler: Handler, tasks: Sequence[Any]) -> list[Any]:
    """A result, or an error that carries no text, for each task.

    Guarantee: no task is drawn twice. A second draw after a failure would cost a second epsilon wherever the failure
    depends on what was drawn: Pr[released] is then Pr[first draw] + Pr[failure] Pr[second draw], and each factor moves
    by e^epsilon. Tasks that cannot be prepared together are prepared one by one, so that a document does not take its
    neighbours along; what fails in a draw has failed.
    """
    draw = guarded(handler.prepare, tasks)
    if isinstance(draw, GatewayError):
        return [draw] if len(tasks) == 1 else [result for task in tasks for result in run_batch(handler, [task])]
    results = guarded(draw)
    if isinstance(results, GatewayError):  # of some task, nobody can say which
        return [results if isinstance(results, Started) else TaskFailed(reason="draw")] * len(tasks)
    return list(results) if len(results) == len(tasks) else [TaskFailed(reason="result-count")] * len(tasks)


def serve(connection: Connection, role: Role) -> NoReturn:
    """Load, then run batches until the socket closes, which raises EOFError."""
    options: WorkerOptions = connection.recv()
    connection.send(Stage("importing"))
    try:
        handler = make_handler(role, options)
        connection.send(Stage("loading models"))
        facts = handler.warm_up()
    except Exception as error:
        # any other message may name files: standard error has it, `/readyz` needs no key
        connection.send(Failed(str(error) if isinstance(error, UnfitDevice) else type(error).__name__))
        raise LoadFailed from error
    connection.send(Ready(facts))
    while True:
        batch: Batch = connection.recv()
        receive_blocks(connection, batch.blocks)
        started = time.perf_counter()
        results = run_batch(handler, batch.payloads)
        seconds = time.perf_counter() - started
        connection.send(Done(batch.batch_id, results, seconds))
        del batch, results


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the gateway, which closes the socket
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)  # a library's record may hold text
    role, fd = Role(sys.argv[1]), int(sys.argv[2])
    with contextlib.closing(Connection(fd)) as connection:
        try:
            serve(connection, role)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return 0
        except LoadFailed as error:
            # nothing of a request has been seen yet: the operator may know everything
            traceback.print_exception(error.__cause__)
            return 1
        except Exception as error:
            # from here on the type alone: a message could hold text
            sys.stderr.write(f"privacy-gateway {role} worker {os.getpid()}: {type(error).__name__}\n")
            return 1


if __name__ == "__main__":
    sys.exit(main())
