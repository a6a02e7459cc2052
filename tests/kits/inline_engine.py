"""The `inline` engine runs the handlers in the calling process.

It is deterministic: it runs one batch at a time, of the role whose queue holds the oldest task. Admission, order,
deadlines and cancellation are those of every engine (`gpu_workers.engine.task_queue`). Payloads and results pass
through pickle, as they do to a worker process.

If a handler raises an exception outside `Exception`, such as SystemExit, the engine treats it as the death of a worker:
the batch ends with `WorkerDied`, and the handler is built again. A handler that never returns is not stopped.
"""

import asyncio
import os
import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from core.errors import WorkerDied
from core.guarded import without_text
from gpu_workers.engine import task_queue
from gpu_workers.engine.arrays import ARRAY_BYTES_MAX, ArrayPool, blocks_of
from gpu_workers.engine.handler import Handler, HandlerFactory, load_failure, run_batch
from gpu_workers.engine.pending import trace_work
from gpu_workers.engine.protocol import Role, RoleStatus
from gpu_workers.engine.task_queue import Engine, QueueLimits, TaskQueue
from gpu_workers.facts import WorkerFacts

DEFAULT_LIMITS = QueueLimits()


def _sent(values: Sequence[Any]) -> list[Any]:
    """What another process would receive."""
    received: list[Any] = pickle.loads(pickle.dumps(list(values)))
    return received


class _Worker:
    """The handler of one role and its queue."""

    def __init__(self, factory: HandlerFactory, queue: TaskQueue) -> None:
        self.queue = queue
        self.handler: Handler | None = None
        self.facts: WorkerFacts | None = None
        self.stage = "not started"
        self._factory = factory

    def load(self) -> None:
        """Build the handler and warm it up."""
        self.handler, self.stage = None, "loading models"
        try:
            handler = self._factory()
            self.facts = handler.warm_up()
        except Exception as error:
            self.stage = f"the last start failed: {load_failure(error)}"
        else:
            self.handler, self.stage = handler, "ready"

    def results(self, handler: Handler, payloads: Sequence[Any]) -> list[Any]:
        """Return a result or an error for each payload. If the handler dies, drop it."""
        try:
            received = _sent(payloads)
            for block, own in zip(blocks_of(received), blocks_of(payloads), strict=True):
                block._hold(os.dup(own._fd))  # the same memory
            return _sent(run_batch(handler, received))
        except Exception as error:  # a payload or a result that cannot be sent
            return [without_text(error) for _ in payloads]
        except BaseException:
            self.handler = None
            return [WorkerDied() for _ in payloads]


class InlineEngine(Engine):
    """`Engine` that runs handlers in a thread of this process. `start` calls each role's factory in `handlers`."""

    def __init__(
        self,
        handlers: Mapping[Role, HandlerFactory],
        *,
        limits: QueueLimits = DEFAULT_LIMITS,
        lacking: Callable[[Sequence[Any]], Collection[int]] = lambda _: (),
        array_bytes_max: int = ARRAY_BYTES_MAX,
        array_owner_bytes_max: int | None = None,
    ) -> None:
        """`lacking`: see `gpu_workers.engine.local_engine`."""
        self._lacking = lacking
        self._wake = asyncio.Event()
        self._workers = {
            role: _Worker(factory, TaskQueue(role, limits, on_admitted=self._wake.set))
            for role, factory in handlers.items()
        }
        super().__init__({role: worker.queue for role, worker in self._workers.items()})
        self.arrays = ArrayPool(bytes_max=array_bytes_max, owner_bytes_max=array_owner_bytes_max)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inline-engine")
        self._running: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Load every handler. On return, each role is ready or its stage gives the reason why it is not."""
        for role, worker in self._workers.items():
            await self._load(role, worker)
        self._running = asyncio.create_task(self._run_batches())

    async def stop(self) -> None:
        """Finish the running batch. All other tasks end as described in `Engine.stop`."""
        self._stopping = True
        for worker in self._workers.values():
            worker.queue.close()
        self._wake.set()
        if self._running is not None:
            await self._running
        self._thread.shutdown()

    def status(self, role: Role) -> RoleStatus:
        worker = self._workers[role]
        return RoleStatus(
            ready=worker.handler is not None, stage=worker.stage, queued=len(worker.queue), facts=worker.facts
        )

    async def _load(self, role: Role, worker: _Worker) -> None:
        task_queue.WORKER_READY.labels(role).set(0)
        await asyncio.get_running_loop().run_in_executor(self._thread, worker.load)
        if worker.handler is not None and not self._stopping:
            worker.queue.open()
        task_queue.WORKER_READY.labels(role).set(worker.handler is not None)

    async def _run_batches(self) -> None:
        while not self._stopping:
            await self._wake.wait()
            self._wake.clear()
            while waiting := [
                (role, worker) for role, worker in self._workers.items() if worker.queue and worker.handler is not None
            ]:
                await self._run_batch(*min(waiting, key=lambda entry: entry[1].queue.oldest_at))

    async def _run_batch(self, role: Role, worker: _Worker) -> None:
        handler = worker.handler
        if handler is None or not (batch := worker.queue.start_batch()):
            return
        payloads = [pending.task.payload for pending in batch]
        if lacking := self._lacking(payloads):
            worker.queue.put_back(batch, lacking)
            return
        started = time.perf_counter()
        results = await asyncio.get_running_loop().run_in_executor(self._thread, worker.results, handler, payloads)
        seconds = time.perf_counter() - started
        task_queue.BATCH_SECONDS.labels(role).observe(seconds)
        trace_work(batch, seconds)
        for pending, result in zip(batch, results, strict=True):
            pending.finish(result)
        if worker.handler is None and not self._stopping:
            task_queue.WORKER_RESTARTS.labels(role).inc()
            await self._load(role, worker)
