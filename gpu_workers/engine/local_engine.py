"""The `local` engine: worker processes on this machine, with one worker pool for each role.

A task has started once it was written to a worker's socket.

A batch closes when it reaches a token budget or after a few milliseconds, whichever comes first, and at once where
requests arrive one by one. While all workers are busy, the batch keeps filling. A worker holds at most
`BATCHES_IN_FLIGHT` batches: one that it runs and one that waits in its socket, so that the device is never idle.
Together they hold little more than one full batch, because what is in the socket cannot be overtaken by a task of
another tenant. A worker says when it begins with a batch that waited there: if it dies before, the tasks are queued
again.

A task that takes long and is `interruptible` has a batch of its own, in the middle of which the worker runs others. On
a slow device it also does so in the middle of a batch of tasks that pause. A task that the quarantine holds has a
worker of its own while it runs, so that nobody loses anything if it ends it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from core.errors import TooCostly, WorkerDied
from gpu_workers.engine import task_queue
from gpu_workers.engine.arrays import ARRAY_BYTES_MAX, ArrayPool, send_blocks
from gpu_workers.engine.handler import BatchDone, Begun, HandlerFactory, LoadFailed, Ready, Stage, TaskBatch
from gpu_workers.engine.pending import PendingTask, Quarantine, trace_work
from gpu_workers.engine.protocol import Role, RoleStatus
from gpu_workers.engine.task_queue import Engine, QueueLimits, TaskQueue
from gpu_workers.facts import WorkerFacts
from gpu_workers.fork_server import ChildProcess

_DELAY_S_MAX = 10.0
_DOUBLINGS_MAX = 10  # of the delay; more exceed the largest float after some hours


class WorkerProcess(ChildProcess):
    """Accepts batches and answers each one with `BatchDone`."""

    def __init__(
        self,
        role: Role,
        factory: HandlerFactory,
        *,
        on_message: Callable[[WorkerProcess, Any], None],
        on_death: Callable[[WorkerProcess], None],
        preload: Sequence[str] = (),
    ) -> None:
        super().__init__(
            "gpu_workers.engine.worker",
            role.value,
            first=factory,
            on_message=lambda message: on_message(self, message),
            on_death=lambda: on_death(self),
            preload=preload,
        )

    def send(self, message: TaskBatch) -> None:
        super().send(message)

    def _transmit(self, connection: Connection, message: Any) -> None:
        super()._transmit(connection, message)
        if isinstance(message, TaskBatch):
            send_blocks(connection, message.blocks, self.pid or 0)


async def start_again(launch: Callable[[], None], deaths: int) -> None:
    """Launch a worker that has died `deaths` times in a row, after a delay that grows with them. Repeats a launch that
    fails because there is no file descriptor or no thread left."""
    while True:
        if deaths > 1:
            await asyncio.sleep(min(_DELAY_S_MAX, 0.25 * 2 ** min(deaths, _DOUBLINGS_MAX)))
        try:
            return launch()
        except (OSError, RuntimeError):
            deaths += 1


log = logging.getLogger("privacy_gateway.engine")

BATCHES_IN_FLIGHT = 2
# Of the time of a full batch: what every batch has, however small. The first that needs a file loads it.
_LEAST_SHARE = 0.5


@dataclass(frozen=True)
class WorkerPoolOptions:
    """Limits of one worker pool, all of them settings of the gateway. `workers`: a factory for each process.
    `preload`: what a fork server imports for them (`gpu_workers.handlers.preload`). `lacking`: the places of payloads
    whose files do not exist (`gpu_workers.handlers.options`)."""

    workers: Sequence[HandlerFactory]
    limits: QueueLimits = field(default_factory=QueueLimits)
    preload: Sequence[str] = ()
    batch_linger_ms: float = 2.0
    batch_seconds_max: float = 120.0
    lacking: Callable[[Sequence[Any]], Collection[int]] = lambda _: ()


@dataclass(eq=False)
class _InFlight:
    """A batch that was passed to a worker. `begun_at`: when the worker may have begun with it, in `time.monotonic`
    seconds; None if it has not. `long`: it is suspended for others. `held`: by the quarantine."""

    batch: list[PendingTask]
    begun_at: float | None
    long: bool
    held: bool

    @property
    def tokens(self) -> int:
        return sum(pending.work for pending in self.batch)

    @property
    def only_tenant(self) -> str | None:
        """The tenant of all its tasks; None if there are several."""
        tenants = {pending.group.tenant for pending in self.batch}
        return tenants.pop() if len(tenants) == 1 else None


@dataclass(eq=False)
class _Slot:
    """The state of one worker process. The process may be replaced; the slot remains."""

    factory: HandlerFactory
    process: WorkerProcess | None = None
    ready: bool = False
    stage: str = "not started"
    failure: str = ""  # why the last start failed
    facts: WorkerFacts | None = None
    in_flight: dict[int, _InFlight] = field(default_factory=dict)
    deaths_in_a_row: int = 0
    ended_by: tuple[str, float] | None = None  # the tenant whose batch alone ended the worker, and when it began

    @property
    def tokens(self) -> int:
        """The tokens of the batches in flight, without those that are suspended for others."""
        return sum(each.tokens for each in self.in_flight.values() if not each.long)


class WorkerPool:
    """The queue of one role and its workers. Used on the event loop only, without locks."""

    def __init__(self, role: Role, options: WorkerPoolOptions) -> None:
        self.role = role
        self._options = options
        self._wake = asyncio.Event()
        self._quarantine = Quarantine()
        self.queue = TaskQueue(
            role,
            options.limits,
            on_admitted=self._wake.set,
            one_worker=len(options.workers) == 1,
            apart=self._quarantine.holds,
        )
        self._slots = [_Slot(factory) for factory in options.workers]
        self._background: set[asyncio.Task[None]] = set()
        self._next_batch_id = 0
        self._stopping = False
        self._computes: tuple[str, str] | None = None  # of the first worker that was ready

    def start(self) -> None:
        for slot in self._slots:
            self._launch(slot)
        self._spawn(self._restart_on_failure(self._dispatch))
        self._spawn(self._restart_on_failure(self._watch))

    async def stop(self) -> None:
        self._stopping = True
        for task in self._background:
            task.cancel()
        self.queue.close()
        processes = [slot.process for slot in self._slots if slot.process is not None]
        await asyncio.gather(*(process.stop() for process in processes))
        for slot in self._slots:
            self._fail_in_flight(slot, all_begun=True)

    def status(self) -> RoleStatus:
        best = next((slot for slot in self._slots if slot.ready), self._slots[0])
        failure = best.failure or next((slot.failure for slot in self._slots if slot.failure), "")
        whose = "the" if best.failure else "another worker's"
        return RoleStatus(
            ready=best.ready,
            stage=f"{best.stage}; {whose} last start failed: {failure}" if failure else best.stage,
            queued=len(self.queue),
            facts=best.facts,
        )

    async def _restart_on_failure(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Restart a loop that fails. Without its loops, a pool would accept tasks and never run them."""
        while True:
            try:
                await loop()
            except Exception as error:
                log.error("engine-loop", extra={"fields": {"role": self.role.value, "kind": type(error).__name__}})
                self._wake.set()
                await asyncio.sleep(0.1)

    async def _dispatch(self) -> None:
        """Close batches and pass them to workers until the pool stops."""
        linger_s = self._options.batch_linger_ms / 1000
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self.queue and (free := self._free_slot()) is not None:
                slot, tokens_max = free
                if (wait_s := self.queue.linger_s(linger_s)) > 0:
                    await asyncio.sleep(wait_s)
                    continue  # tasks may have arrived or been withdrawn, and the worker may have died
                if slot.process is not None and not self._hand_over(slot, slot.process, tokens_max):
                    break  # what waits needs a worker of its own

    def _free_slot(self) -> tuple[_Slot, int] | None:
        """A worker that takes a batch now, and the token budget of that batch."""
        free = [
            slot
            for slot in self._slots
            if slot.ready
            and len(slot.in_flight) < BATCHES_IN_FLIGHT
            and not any(each.held for each in slot.in_flight.values())
        ]
        if not free:
            return None
        slot = min(free, key=lambda slot: len(slot.in_flight))
        budget = self.queue.budget
        if not slot.tokens:
            return slot, budget
        left = budget + min(self._options.limits.piece_tokens_max, budget // 2) - slot.tokens
        # Behind a running batch, queue a full one: a batch that is not full may still grow, and another worker may take
        # it sooner. If there is no other, one as large as the running batch is worth not to wait for what arrives.
        enough = min(left, budget) if len(self._slots) > 1 else min(left, slot.tokens)
        return (slot, left) if left > 0 and self.queue.fills(enough) else None

    def _hand_over(self, slot: _Slot, process: WorkerProcess, tokens_max: int) -> bool:
        """Pass the next batch to a worker. Return False if nothing that waits may run beside what it runs."""
        waits = bool(slot.in_flight)

        def fits(pending: PendingTask) -> bool:
            return not (waits and (self.queue.runs_alone(pending) or self.queue.is_long(pending)))

        batch = self.queue.start_batch(tokens_max, fits=fits)
        if not batch:
            return False
        payloads = [pending.task.payload for pending in batch]
        if lacking := self._options.lacking(payloads):
            self.queue.put_back(batch, lacking)  # nothing was written to a worker, so nothing is charged
            return True
        self._next_batch_id += 1
        slot.in_flight[self._next_batch_id] = _InFlight(
            batch,
            begun_at=None if waits else time.monotonic(),
            long=all(map(self.queue.is_long, batch)),
            held=self._quarantine.holds(batch[0]),
        )
        process.send(TaskBatch(self._next_batch_id, payloads, says_begun=waits))
        return True

    async def _watch(self) -> None:
        """Kill a worker that runs a batch for too long. Its death is then handled like any other."""
        while True:
            await asyncio.sleep(min(1.0, self._options.batch_seconds_max / 4))
            now = time.monotonic()
            for slot in self._slots:
                if slot.process and any(
                    each.begun_at is not None and now - each.begun_at > self._seconds_max(each)
                    for each in slot.in_flight.values()
                ):
                    slot.process.kill()

    def _seconds_max(self, each: _InFlight) -> float:
        """The longest time of a batch, by its estimated work."""
        if each.long or self.role is Role.FILL:
            return 2 * self._options.batch_seconds_max  # others run meanwhile, or another machine answers
        share = each.tokens / self._options.limits.batch_tokens_max
        return self._options.batch_seconds_max * min(1.0, _LEAST_SHARE + share)

    def _launch(self, slot: _Slot) -> None:
        slot.stage = "starting"

        def on_message(process: WorkerProcess, message: Any) -> None:
            if slot.process is process:
                self._received(slot, message)

        def on_death(process: WorkerProcess) -> None:
            if slot.process is process:
                self._died(slot, all_begun=not process.read_to_end)

        slot.process = WorkerProcess(
            self.role, slot.factory, on_message=on_message, on_death=on_death, preload=self._options.preload
        )

    def _received(self, slot: _Slot, message: Any) -> None:
        match message:
            case Stage(name):
                slot.stage = name
            case LoadFailed(reason):
                slot.failure = reason
            case Ready(facts) if self._computes not in (None, facts.computes) and slot.process is not None:
                # Which worker computes a document depends on the lengths of others, so its vectors must not.
                slot.failure = "it computes other numbers than the first worker of its role"
                slot.process.kill()
            case Ready(facts):
                self._computes = facts.computes
                slot.ready, slot.stage, slot.facts, slot.deaths_in_a_row = True, "ready", facts, 0
                slot.failure = ""
                log.info("worker-ready", extra={"fields": {"role": self.role.value}})
                if slot.ended_by is not None:
                    tenant, since = slot.ended_by
                    self.queue.charge(tenant, time.monotonic() - since)
                    slot.ended_by = None
                if not self._stopping:
                    self.queue.open()
                task_queue.WORKER_READY.labels(self.role).set(sum(slot.ready for slot in self._slots))
            case Begun(batch_id):
                slot.in_flight[batch_id].begun_at = time.monotonic()
            case BatchDone(batch_id, results, seconds):
                done = slot.in_flight.pop(batch_id)
                batch = done.batch
                task_queue.BATCH_SECONDS.labels(self.role).observe(seconds)
                trace_work(batch, seconds)
                self._account(done, results, seconds)
                for pending, result in zip(batch, results, strict=True):
                    pending.finish(result)
            case _:
                raise TypeError("unknown message from a worker")
        self._wake.set()

    def _account(self, done: _InFlight, results: Sequence[Any], seconds: float) -> None:
        """Record the time of a batch, and charge it to the tenant that is known to have caused it."""
        if done.held:
            self._quarantine.completed(done.batch[0])
        if not done.long:
            self.queue.pace.measured(done.tokens, seconds)
        if done.only_tenant is not None:
            self.queue.charge(done.only_tenant, seconds, estimated=done.tokens)
            return
        cut = [pending for pending, result in zip(done.batch, results, strict=True) if isinstance(result, TooCostly)]
        for pending in cut:
            self.queue.charge(pending.group.tenant, seconds / len(cut))

    def _died(self, slot: _Slot, *, all_begun: bool) -> None:
        slot.ready, slot.process, slot.stage = False, None, "restarting"
        task_queue.WORKER_READY.labels(self.role).set(sum(slot.ready for slot in self._slots))
        self._fail_in_flight(slot, all_begun=all_begun)
        if not self._stopping:
            task_queue.WORKER_RESTARTS.labels(self.role).inc()
            slot.deaths_in_a_row += 1
            log.warning("worker-died", extra={"fields": {"role": self.role.value, "in_a_row": slot.deaths_in_a_row}})
            self._spawn(start_again(partial(self._launch, slot), slot.deaths_in_a_row))

    def _fail_in_flight(self, slot: _Slot, *, all_begun: bool) -> None:
        """End the batches of a worker that has ended, and queue those again that it has not begun with. `all_begun`:
        what it has said last is not known, so it may have begun with each."""
        held, slot.in_flight = list(slot.in_flight.values()), {}
        begun = [each for each in held if each.begun_at is not None or all_begun]
        for each in held:
            if each not in begun:
                self.queue.put_back(each.batch, lost=True)
                continue
            if not self._stopping:
                self._quarantine.suspect(each.batch)
            for pending in each.batch:
                pending.finish(WorkerDied())
        if len(begun) == 1 and (tenant := begun[0].only_tenant) is not None:
            slot.ended_by = tenant, begun[0].begun_at or time.monotonic()

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class LocalEngine(Engine):
    """`Engine` that uses worker processes on this machine. Its arrays are in memory that it shares with a worker."""

    def __init__(
        self,
        pools: Mapping[Role, WorkerPoolOptions],
        *,
        array_bytes_max: int = ARRAY_BYTES_MAX,
        array_owner_bytes_max: int | None = None,
    ) -> None:
        self._pools = {role: WorkerPool(role, options) for role, options in pools.items()}
        super().__init__({role: pool.queue for role, pool in self._pools.items()})
        self.arrays = ArrayPool(bytes_max=array_bytes_max, owner_bytes_max=array_owner_bytes_max)

    async def start(self) -> None:
        """Start to load the workers and return at once."""
        for pool in self._pools.values():
            pool.start()

    async def stop(self) -> None:
        await asyncio.gather(*(pool.stop() for pool in self._pools.values()))

    def status(self, role: Role) -> RoleStatus:
        return self._pools[role].status()
