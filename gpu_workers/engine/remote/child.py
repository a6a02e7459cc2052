"""The handler of a worker server, in a process of its own.

It is the worker process of the local engine (`gpu_workers.engine.local.worker`), so handlers run in one way everywhere.
The server's process holds no model and runs no handler: it stays responsive while a batch computes, it can end a batch
that is stuck, and it knows of each batch whether it had begun or ended when the handler's process dies.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import WorkerDied
from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local.messages import Batch, Begun, Done, Failed, Ready, Stage
from gpu_workers.engine.local.worker_process import WorkerProcess, start_again
from gpu_workers.engine.protocol import Role
from gpu_workers.facts import WorkerFacts


class NotBegun(Exception):
    """No process has begun with the batch, and none will."""


@dataclass(eq=False)
class _Held:
    """A batch that the process has. `begun`: the process has said so, or it is not known."""

    done: asyncio.Future[Done]
    begun: bool = False


class HandlerProcess:
    """Runs batches one after the other, restarts a process that has died, and kills one that is stuck.

    `on_change` is called when `ready`, `stage`, `failure` or `facts` have changed.
    """

    def __init__(
        self, role: Role, factory: HandlerFactory, *, batch_seconds_max: float, on_change: Callable[[], None]
    ) -> None:
        self.ready = False
        self.stage = "not started"
        self.failure = ""  # why the last start failed
        self.facts: WorkerFacts | None = None
        self._role = role
        self._factory = factory
        self._batch_seconds_max = batch_seconds_max
        self._on_change = on_change
        self._process: WorkerProcess | None = None
        self._batches: dict[int, _Held] = {}
        self._running_since = 0.0
        self._last = 0
        self._deaths_in_a_row = 0
        self._stopping = False
        self._background: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """The process that runs the handler; None while none does."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._launch()
        self._spawn(self._watch())

    async def stop(self) -> None:
        """End the process. Batches that it holds end with WorkerDied."""
        self._stopping = True
        for task in self._background:
            task.cancel()
        if self._process is not None:
            await self._process.stop()
        self._fail_batches(all_begun=True)

    async def run(self, payloads: Sequence[Any]) -> Done:
        """Run a batch. Raises NotBegun if the process is not ready, or dies before it has begun with the batch, and
        WorkerDied if it dies later."""
        if self._process is None or not self.ready:
            raise NotBegun
        self._last += 1
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        if not self._batches:
            self._running_since = time.monotonic()
        self._batches[self._last] = _Held(done)
        self._process.send(Batch(self._last, list(payloads), says_begun=True))
        return await done

    async def _watch(self) -> None:
        """Kill a process that has run one batch for too long."""
        while True:
            await asyncio.sleep(min(1.0, self._batch_seconds_max / 4))
            stuck = self._batches and time.monotonic() - self._running_since > self._batch_seconds_max
            if stuck and self._process is not None:
                self._process.kill()

    def _launch(self) -> None:
        self.stage = "starting"

        def on_message(process: WorkerProcess, message: Any) -> None:
            if self._process is process:
                self._received(message)

        def on_death(process: WorkerProcess) -> None:
            if self._process is process:
                self._died(all_begun=not process.read_to_end)

        self._process = WorkerProcess(self._role, self._factory, on_message=on_message, on_death=on_death)
        self._on_change()

    def _received(self, message: Any) -> None:
        match message:
            case Stage(name):
                self.stage = name
            case Failed(reason):
                self.failure = reason
            case Ready(facts):
                self.ready, self.stage, self.facts, self.failure = True, "ready", facts, ""
                self._deaths_in_a_row = 0
            case Begun(batch_id):
                self._batches[batch_id].begun = True
                return
            case Done(batch_id):
                self._running_since = time.monotonic()
                done = self._batches.pop(batch_id).done
                if not done.done():
                    done.set_result(message)
                return
            case _:
                raise TypeError("unknown message from a handler's process")
        self._on_change()

    def _died(self, *, all_begun: bool) -> None:
        self.ready, self._process, self.stage = False, None, "restarting"
        self._fail_batches(all_begun=all_begun)
        if not self._stopping:
            self._deaths_in_a_row += 1
            self._spawn(start_again(self._launch, self._deaths_in_a_row))
        self._on_change()

    def _fail_batches(self, *, all_begun: bool) -> None:
        """End the batches. `all_begun`: what the process has said last is not known, so each of them may have begun."""
        for held in self._batches.values():
            if not held.done.done():
                held.done.set_exception(WorkerDied() if all_begun or held.begun else NotBegun())
        self._batches.clear()

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
