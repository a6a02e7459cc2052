"""The queue of one role: admission, order, deadlines and cancellation. All engines share it, so they behave alike.

A task has *started* once `start_batch` has returned it: the engine then passes it to a worker, which may draw noise at
any moment. Until then, only the gateway holds the task and can guarantee that nothing was read.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
from gpu_workers.engine import metrics
from gpu_workers.engine.protocol import Role, Task


@dataclass(eq=False)
class _Group:
    """The tasks of one request, which are admitted together."""

    results: list[Any]
    done: asyncio.Future[None]
    unfinished: int
    isolate_failures: bool
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
class PendingTask:
    """A task from its admission until its result."""

    task: Task
    group: _Group
    index: int
    admitted_at: float  # `time.monotonic` seconds

    def finish(self, result: Any) -> None:
        """Set a worker's result. The task was passed to a worker, so no result can lead to a refund."""
        self.group.settle(self.index, TaskFailed() if isinstance(result, NotStarted) else result)


class TaskQueue:
    """Used on the event loop only, without locks. It refuses all tasks until it is opened.

    Tasks start in the order of their admission, which only `start_batch` determines.
    """

    def __init__(self, role: Role, *, tasks_max: int, batch_tokens_max: int, on_admitted: Callable[[], None]) -> None:
        """`on_admitted` is called when tasks arrive."""
        self._role = role
        self._tasks_max = tasks_max
        self._batch_tokens_max = batch_tokens_max
        self._on_admitted = on_admitted
        self._pending: deque[PendingTask] = deque()
        self._shrunk = asyncio.Event()
        self._open = False

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def oldest_at(self) -> float:
        """The admission time of the next task, in `time.monotonic` seconds. Raises IndexError for an empty queue."""
        return self._pending[0].admitted_at

    @property
    def fills_a_batch(self) -> bool:
        """Whether the queued tasks reach the token budget of a batch."""
        weight = 0
        for pending in self._pending:
            weight += pending.task.weight
            if weight >= self._batch_tokens_max:
                return True
        return False

    def open(self) -> None:
        """Start to admit tasks."""
        self._open = True

    def close(self) -> None:
        """Refuse all further tasks. Queued tasks end with `WorkerDied` if their group has started, else with
        `WorkerCold`."""
        self._open = False
        for pending in self._pending:
            pending.group.settle(pending.index, WorkerDied() if pending.group.started else WorkerCold())
        self._keep(())

    async def run(
        self,
        tasks: Sequence[Task],
        *,
        timeout_s: float,
        client_disconnected: asyncio.Event,
        isolate_failures: bool = False,
    ) -> list[Any]:
        """See `Engine.run`."""
        group = self._admit(tasks, isolate_failures=isolate_failures)
        disconnected: asyncio.Future[Any] = asyncio.ensure_future(client_disconnected.wait())
        deadline = time.monotonic() + timeout_s
        try:
            either: set[asyncio.Future[Any]] = {group.done, disconnected}
            await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not group.done.done() and not group.started:
                raise self._refused(ClientGone() if client_disconnected.is_set() else DeadlineBeforeStart())
            # Started: wait for the result even if the client has disconnected, because it can fetch the result by its
            # key.
            await asyncio.wait({group.done}, timeout=max(0.0, deadline - time.monotonic()))
            if not group.done.done():
                raise DeadlineExceeded
            group.done.result()
            return group.results
        finally:
            disconnected.cancel()
            if not group.done.done():
                self._keep(pending for pending in self._pending if pending.group is not group)
                group.done.cancel()

    async def wait_for_capacity(self, tasks: int, *, timeout_s: float) -> None:
        """See `Engine.wait_for_capacity`."""
        if tasks > self._tasks_max:
            raise self._refused(QueueFull())
        try:
            async with asyncio.timeout(timeout_s):
                while not self._has_capacity(tasks):
                    await self._shrunk.wait()
        except TimeoutError:
            raise self._refused(QueueFull()) from None

    def start_batch(self) -> list[PendingTask]:
        """Take the next tasks, up to the token budget of a batch and at least one. They count as started from now on.

        The batch is empty if all queued tasks belong to groups that have failed.
        """
        now = time.monotonic()
        batch: list[PendingTask] = []
        weight = 0
        while self._pending:
            pending = self._pending[0]
            if pending.group.done.done():  # another task has failed and ended the whole group
                self._pending.popleft()
                continue
            if batch and weight + pending.task.weight > self._batch_tokens_max:
                break
            batch.append(self._pending.popleft())
            weight += pending.task.weight
        self._changed()
        if batch:
            for pending in batch:
                pending.group.started = True
                metrics.QUEUE_SECONDS.labels(self._role).observe(now - pending.admitted_at)
            metrics.BATCH_TASKS.labels(self._role).observe(len(batch))
            metrics.BATCH_TOKENS.labels(self._role).observe(weight)
        return batch

    def _has_capacity(self, tasks: int) -> bool:
        return len(self._pending) + tasks <= self._tasks_max

    def _admit(self, tasks: Sequence[Task], *, isolate_failures: bool) -> _Group:
        if not self._open:
            raise self._refused(WorkerCold())
        if not self._has_capacity(len(tasks)):
            raise self._refused(QueueFull())
        now = time.monotonic()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        group = _Group([None] * len(tasks), done, unfinished=len(tasks), isolate_failures=isolate_failures)
        self._pending.extend(PendingTask(task, group, index, now) for index, task in enumerate(tasks))
        self._changed()
        self._on_admitted()
        return group

    def _keep(self, pending: Iterable[PendingTask]) -> None:
        self._pending = deque(pending)
        self._changed()

    def _changed(self) -> None:
        metrics.QUEUE_LENGTH.labels(self._role).set(len(self._pending))
        self._shrunk.set()  # every caller of `wait_for_capacity` checks again
        self._shrunk.clear()

    def _refused(self, error: NotStarted) -> NotStarted:
        metrics.REFUSED.labels(self._role, error.code).inc()
        return error
