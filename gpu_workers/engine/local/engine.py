"""The `local` engine: worker processes on this machine, fed by a dynamic batcher.

A *lane* is the queue of one role and the workers that empty it. A batch closes on a token budget or after a few
milliseconds, whichever comes first; while a worker is busy the batch keeps filling. A worker holds at most
`BATCHES_IN_FLIGHT` batches: one that it runs and one that waits in its socket, so that the device never idles.

What counts as started: a task that was handed to a worker's socket. Until then the gateway alone holds it and can
say that nothing was read; after that the worker may have drawn noise at any moment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.errors import (
    ClientGone,
    DeadlineBeforeStart,
    DeadlineExceeded,
    GatewayError,
    NotStarted,
    QueueFull,
    TaskFailed,
    WorkerCold,
    WorkerDied,
)
from gpu_workers.child_process import WorkerProcess
from gpu_workers.engine import metrics
from gpu_workers.engine.protocol import Role, RoleStatus, Task
from gpu_workers.handlers.options import Batch, Done, Failed, Ready, Stage, WorkerOptions

log = logging.getLogger("privacy_gateway.engine")

BATCHES_IN_FLIGHT = 2
RESTART_DELAY_S_MAX = 10.0


@dataclass(frozen=True)
class WorkerPoolOptions:
    """Limits of one lane, all of them settings of the gateway."""

    workers: Sequence[WorkerOptions]
    queue_tasks_max: int = 1024
    batch_tokens_max: int = 4096
    batch_linger_ms: float = 2.0
    batch_seconds_max: float = 120.0


@dataclass(eq=False)
class _Group:
    """The tasks of one request, admitted whole."""

    results: list[Any]
    done: asyncio.Future[None]
    unfinished: int
    isolate_failures: bool = False
    started: bool = False

    def settle(self, index: int, result: Any) -> None:
        if self.done.done():
            return
        if isinstance(result, GatewayError) and not (self.isolate_failures and self.started):
            self.done.set_exception(result)
            return
        self.results[index] = result
        self.unfinished -= 1
        if self.unfinished == 0:
            self.done.set_result(None)


@dataclass(frozen=True, eq=False)
class _Pending:
    task: Task
    group: _Group
    index: int
    admitted_at: float


@dataclass(eq=False)
class _Slot:
    """A place for one worker process; the process changes, the slot stays."""

    options: WorkerOptions
    process: WorkerProcess | None = None
    ready: bool = False
    stage: str = "not started"
    failure: str = ""  # why the last start ended before the worker was ready
    facts: Mapping[str, Any] = field(default_factory=dict)
    in_flight: dict[int, tuple[float, list[_Pending]]] = field(default_factory=dict)
    deaths_in_a_row: int = 0


class WorkerPool:
    """The queue of one role and its workers. Lives on the event loop; no locks."""

    def __init__(self, role: Role, options: WorkerPoolOptions) -> None:
        self.role = role
        self._options = options
        self._queue: deque[_Pending] = deque()
        self._slots = [_Slot(worker) for worker in options.workers]
        self._wake = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        self._next_batch_id = 0
        self._was_ready = False
        self._stopping = False

    def start(self) -> None:
        for slot in self._slots:
            self._launch(slot)
        self._spawn(self._for_ever(self._dispatch))
        self._spawn(self._for_ever(self._watch))

    async def stop(self) -> None:
        self._stopping = True
        for task in self._background:
            task.cancel()
        for pending in self._queue:
            pending.group.settle(pending.index, WorkerDied() if pending.group.started else WorkerCold())
        self._queue.clear()
        processes = [slot.process for slot in self._slots if slot.process is not None]
        await asyncio.gather(*(process.stop() for process in processes))
        for slot in self._slots:
            self._fail_in_flight(slot)

    def status(self) -> RoleStatus:
        best = next((slot for slot in self._slots if slot.ready), self._slots[0])
        return RoleStatus(
            ready=best.ready,
            stage=f"{best.stage}; the last start failed: {best.failure}" if best.failure else best.stage,
            queued=len(self._queue),
            facts=dict(best.facts),
        )

    async def run(
        self,
        tasks: Sequence[Task],
        *,
        timeout_s: float,
        client_disconnected: asyncio.Event,
        isolate_failures: bool = False,
    ) -> list[Any]:
        group = self._admit(tasks, isolate_failures=isolate_failures)
        left: asyncio.Future[Any] = asyncio.ensure_future(client_disconnected.wait())
        deadline = time.monotonic() + timeout_s
        try:
            either: set[asyncio.Future[Any]] = {group.done, left}
            await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not group.done.done() and not group.started:
                raise self._refused(ClientGone() if client_disconnected.is_set() else DeadlineBeforeStart())
            # started: the result is awaited even when the client has left, for it can fetch it by its key
            await asyncio.wait({group.done}, timeout=max(0.0, deadline - time.monotonic()))
            if not group.done.done():
                raise DeadlineExceeded
            group.done.result()
            return group.results
        finally:
            left.cancel()
            if not group.done.done():
                self._withdraw(group)

    def _admit(self, tasks: Sequence[Task], *, isolate_failures: bool) -> _Group:
        if self._stopping or not self._was_ready:
            raise self._refused(WorkerCold())
        if len(self._queue) + len(tasks) > self._options.queue_tasks_max:
            raise self._refused(QueueFull())
        now = time.monotonic()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        group = _Group(results=[None] * len(tasks), done=done, unfinished=len(tasks), isolate_failures=isolate_failures)
        self._queue.extend(_Pending(task, group, index, now) for index, task in enumerate(tasks))
        metrics.QUEUE_LENGTH.labels(self.role).set(len(self._queue))
        self._wake.set()
        return group

    def _withdraw(self, group: _Group) -> None:
        self._queue = deque(pending for pending in self._queue if pending.group is not group)
        metrics.QUEUE_LENGTH.labels(self.role).set(len(self._queue))
        group.done.cancel()

    def _refused(self, error: NotStarted) -> NotStarted:
        metrics.REFUSED.labels(self.role, error.code).inc()
        return error

    async def _for_ever(self, loop: Callable[[], Awaitable[None]]) -> None:
        """A lane whose loop ended would take work and never do it."""
        while True:
            try:
                await loop()
            except Exception as error:
                log.error("engine-loop", extra={"fields": {"role": self.role.value, "kind": type(error).__name__}})
                self._wake.set()
                await asyncio.sleep(0.1)

    async def _dispatch(self) -> None:
        """Close batches and hand them out, for as long as the lane lives."""
        linger_s = self._options.batch_linger_ms / 1000
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue and (slot := self._free_slot()) is not None:
                age_s = time.monotonic() - self._queue[0].admitted_at
                if age_s < linger_s and not self._full():
                    await asyncio.sleep(linger_s - age_s)
                    continue  # tasks may have come or gone, the slot may have died
                if slot.process is not None:
                    self._hand_over(slot, slot.process)

    def _free_slot(self) -> _Slot | None:
        free = [slot for slot in self._slots if slot.ready and len(slot.in_flight) < BATCHES_IN_FLIGHT]
        slot = min(free, key=lambda slot: len(slot.in_flight), default=None)
        # behind a running batch only a full one queues up: a half-empty one may still grow in the meantime
        return None if slot is not None and slot.in_flight and not self._full() else slot

    def _full(self) -> bool:
        weight = 0
        for pending in self._queue:
            weight += pending.task.weight
            if weight >= self._options.batch_tokens_max:
                return True
        return False

    def _hand_over(self, slot: _Slot, process: WorkerProcess) -> None:
        """Move tasks from the queue to a worker: the moment at which they count as started."""
        now = time.monotonic()
        batch: list[_Pending] = []
        weight = 0
        while self._queue:
            pending = self._queue[0]
            if pending.group.done.done():  # a sibling failed: this one's group is lost already
                self._queue.popleft()
                continue
            if batch and weight + pending.task.weight > self._options.batch_tokens_max:
                break
            batch.append(self._queue.popleft())
            weight += pending.task.weight
        metrics.QUEUE_LENGTH.labels(self.role).set(len(self._queue))
        if not batch:
            return
        for pending in batch:
            pending.group.started = True
            metrics.QUEUE_SECONDS.labels(self.role).observe(now - pending.admitted_at)
        metrics.BATCH_TASKS.labels(self.role).observe(len(batch))
        metrics.BATCH_TOKENS.labels(self.role).observe(weight)
        self._next_batch_id += 1
        slot.in_flight[self._next_batch_id] = (now, batch)
        process.send(Batch(self._next_batch_id, [pending.task.payload for pending in batch]))

    async def _watch(self) -> None:
        """Kill a worker that sits on a batch for too long; its death is then handled as any other."""
        while True:
            await asyncio.sleep(min(1.0, self._options.batch_seconds_max / 4))
            now = time.monotonic()
            for slot in self._slots:
                # a batch's clock runs while it waits behind another, hence the factor
                limit_s = self._options.batch_seconds_max * BATCHES_IN_FLIGHT
                if slot.process and any(now - sent > limit_s for sent, _ in slot.in_flight.values()):
                    slot.process.kill()

    def _launch(self, slot: _Slot) -> None:
        slot.stage = "starting"

        def on_message(process: WorkerProcess, message: Any) -> None:
            if slot.process is process:
                self._heard(slot, message)

        def on_death(process: WorkerProcess) -> None:
            if slot.process is process:
                self._died(slot)

        slot.process = WorkerProcess(self.role, slot.options, on_message=on_message, on_death=on_death)

    def _heard(self, slot: _Slot, message: Any) -> None:
        match message:
            case Stage(name):
                slot.stage = name
            case Failed(reason):
                slot.failure = reason
            case Ready(facts):
                slot.ready, slot.stage, slot.facts, slot.deaths_in_a_row = True, "ready", facts, 0
                slot.failure = ""
                self._was_ready = True
                metrics.WORKER_READY.labels(self.role).set(sum(slot.ready for slot in self._slots))
            case Done(batch_id, results, seconds):
                _, batch = slot.in_flight.pop(batch_id)
                metrics.BATCH_SECONDS.labels(self.role).observe(seconds)
                for pending, result in zip(batch, results, strict=True):
                    # whatever a worker says, it was handed the work: its answer can never lead to a refund
                    pending.group.settle(pending.index, TaskFailed() if isinstance(result, NotStarted) else result)
            case _:
                raise TypeError("unknown message from a worker")
        self._wake.set()

    def _died(self, slot: _Slot) -> None:
        slot.ready, slot.process, slot.stage = False, None, "restarting"
        metrics.WORKER_READY.labels(self.role).set(sum(slot.ready for slot in self._slots))
        self._fail_in_flight(slot)
        if not self._stopping:
            metrics.WORKER_RESTARTS.labels(self.role).inc()
            slot.deaths_in_a_row += 1
            self._spawn(self._relaunch(slot))

    def _fail_in_flight(self, slot: _Slot) -> None:
        for _, batch in slot.in_flight.values():
            for pending in batch:
                pending.group.settle(pending.index, WorkerDied())
        slot.in_flight.clear()

    async def _relaunch(self, slot: _Slot) -> None:
        if slot.deaths_in_a_row > 1:
            await asyncio.sleep(min(RESTART_DELAY_S_MAX, 0.25 * 2**slot.deaths_in_a_row))
        self._launch(slot)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class LocalEngine:
    """`Engine` over worker processes of this machine."""

    def __init__(self, pools: Mapping[Role, WorkerPoolOptions]) -> None:
        self._options = dict(pools)
        self._pools: dict[Role, WorkerPool] = {}

    @property
    def roles(self) -> Sequence[Role]:
        return tuple(self._options)

    async def start(self) -> None:
        self._pools = {role: WorkerPool(role, options) for role, options in self._options.items()}
        for pool in self._pools.values():
            pool.start()

    async def stop(self) -> None:
        await asyncio.gather(*(pool.stop() for pool in self._pools.values()))

    async def run(
        self,
        role: Role,
        tasks: Sequence[Task],
        *,
        timeout_s: float,
        client_disconnected: asyncio.Event,
        isolate_failures: bool = False,
    ) -> list[Any]:
        return await self._pools[role].run(
            tasks, timeout_s=timeout_s, client_disconnected=client_disconnected, isolate_failures=isolate_failures
        )

    def status(self, role: Role) -> RoleStatus:
        pool = self._pools.get(role)
        return pool.status() if pool else RoleStatus(ready=False, stage="not started", queued=0, facts={})
