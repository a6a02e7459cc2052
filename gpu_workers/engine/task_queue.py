"""An engine, and the queue of each of its roles: admission, order, deadlines and cancellation, alike in all engines.

A task has *started* once `start_batch` has returned it or a piece of it: the engine then passes it to a worker, which
may draw noise at any moment. Until then, only the gateway holds the task and can guarantee that nothing was read.

`Pace` measures how fast tasks arrive and workers are, which decides the size of a batch. The labels of the Prometheus
metrics are roles and fixed outcomes, never tenant data.
"""

import asyncio
import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from core.errors import (
    ClientGone,
    DeadlineBeforeStart,
    GatewayError,
    NotStarted,
    QueueFull,
    Started,
    TaskFailed,
    TenantLimitReached,
    WorkerCold,
    WorkerDied,
)
from gpu_workers.engine.arrays import ArrayPool
from gpu_workers.engine.fairness import FairQueue, tenant_places
from gpu_workers.engine.pending import PendingTask, TaskGroup, trace_batch
from gpu_workers.engine.protocol import NOT_SERVED, Role, RoleStatus, Task

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

QUEUE_LENGTH = Gauge("gateway_queue_tasks", "Tasks waiting for a worker", ["role"])
QUEUE_SECONDS = Histogram("gateway_queue_seconds", "Time from admission to a worker", ["role"], buckets=_SECONDS)
BATCH_TASKS = Histogram("gateway_batch_tasks", "Tasks in a batch", ["role"], buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256))
BATCH_SECONDS = Histogram("gateway_batch_seconds", "Time of a batch in a worker", ["role"], buckets=_SECONDS)
WORKER_READY = Gauge("gateway_workers_ready", "Workers that are warm", ["role"])
WORKER_RESTARTS = Counter("gateway_worker_restarts", "Workers that died and were started again", ["role"])
REFUSED = Counter("gateway_engine_refused", "Groups of tasks that were not started", ["role", "code"])


# While several tenants are active, a batch takes about this time on a slow device, so that the next task of another
# tenant waits for less than a full batch. It waits for the batch that runs and for the one that is queued behind that,
# which takes half as long. A tenant is active while it waits, and for a second after its last request. While only one
# is, the batches that run are the longer ones.
CROWDED_BATCH_S, LONE_BATCH_S = 0.04, 0.12
ACTIVE_S = 1.0

# One batch counts for at most this many times slower than those before it: the content of a text can make it slow.
_SLOWER_MAX = 4
_TOKENS_PER_S = 10_000  # of a processor with a few cores; counts until a batch has been measured


# A task that is larger than a batch is cut into pieces of this share of a batch. While several tenants wait, a batch
# takes no more than that from a tenant, so that a short task of one is not part of a batch that is full of another's.
PIECES_PER_BATCH = 8


@dataclass(frozen=True)
class QueueLimits:
    """Limits of one role's queue, all of them settings of the gateway, which have the same defaults.

    `tasks_max` and `tokens_max` are for all tenants together. Each tenant may hold `tenant_share` of what the others
    leave free: n tenants that queue as much as they may hold 1/(n+1) of the queue each at a share of one half, and as
    much remains free for the next tenant. A tenant with nothing in the queue may always queue one group of any weight,
    because requests have limits of their own, and every tenant may always queue tokens for one batch.
    """

    tasks_max: int = 16_384
    tokens_max: int = 8_000_000
    tenant_share: float = 0.5
    batch_tokens_max: int = 4096

    @property
    def piece_tokens_max(self) -> int:
        return max(1, self.batch_tokens_max // PIECES_PER_BATCH)


class Pace:
    """The pace of one role. Used on the event loop only, without locks."""

    def __init__(self, limits: QueueLimits) -> None:
        self._piece, self._full = limits.piece_tokens_max, limits.batch_tokens_max
        self._least = max(1, self._piece // 4)  # smaller batches cost more than they divide
        self._arrivals: dict[str, float] = {}  # the last one of each active tenant
        self._arrived_at = -math.inf  # the last of all
        self.gap_s = math.inf  # between the last two
        self._tokens_per_s = math.inf

    def arrived(self, tenant: str, now: float) -> None:
        """Record a request of a tenant."""
        self._arrivals[tenant] = now
        self.gap_s, self._arrived_at = now - self._arrived_at, now

    def budget(self, waiting: FairQueue[Any]) -> int:
        """The token budget of the next batch."""
        earliest = time.monotonic() - ACTIVE_S
        self._arrivals = {tenant: at for tenant, at in self._arrivals.items() if at > earliest}
        others = sum(1 for tenant in self._arrivals if waiting.held(tenant) == (0, 0))
        if not self.is_slow:
            return self._full
        seconds = LONE_BATCH_S if waiting.tenants + others < 2 else CROWDED_BATCH_S
        return max(self._least, min(self._full, int(self._tokens_per_s * seconds)))

    @property
    def is_slow(self) -> bool:
        """Whether a full batch takes longer than a batch should while several tenants are active."""
        return self._tokens_per_s * CROWDED_BATCH_S < self._full

    def measured(self, tokens: int, seconds: float) -> None:
        """Record the time that a worker took for a batch. Small batches say little about the speed of large ones."""
        if tokens >= self._piece and seconds > 0:
            speed = tokens / seconds
            if math.isfinite(known := self._tokens_per_s):
                speed = 0.8 * known + 0.2 * max(speed, known / _SLOWER_MAX)
            self._tokens_per_s = speed

    def tokens_in(self, seconds: float) -> int:
        """The work that the workers do in this time."""
        return int(seconds * (self._tokens_per_s if math.isfinite(self._tokens_per_s) else _TOKENS_PER_S))


OVERTIME_S = 0.1  # the estimate of a batch is not more exact

FILE_MISSING = "The worker does not have a pack, model or recogniser that the request needs; nothing was charged."
_LOST_MAX = 3  # a task may be what ends the handlers of workers before they begin with it
_LOST = "Workers have ended several times before they began with the request; nothing was charged."


def _work(tasks: Sequence[Task]) -> int:
    return sum(task.weight for task in tasks)


def _file_missing(started: bool) -> GatewayError:
    return TaskFailed(reason="file-missing") if started else WorkerCold(FILE_MISSING)


@dataclass(frozen=True)
class _Wanted:
    """What a caller of `wait_for_capacity` waits for. `free` is set once the queue can admit it."""

    tenant: str
    tasks: int
    work: int
    free: asyncio.Future[None]


class TaskQueue:
    """Used on the event loop only, without locks. It refuses all tasks until it is opened.

    It is no `Turns`: a group is admitted whole or not at all, by its tasks and its tokens, waits for a worker without
    its caller, and is taken in batches and in pieces.

    Which task starts next is determined by `start_batch` alone, in the order of `FairQueue`.
    """

    def __init__(
        self,
        role: Role,
        limits: QueueLimits,
        *,
        on_admitted: Callable[[], None],
        one_worker: bool = True,
        apart: Callable[[PendingTask], bool] = lambda _: False,
    ) -> None:
        """`on_admitted` is called when tasks arrive. `one_worker`: whether a single worker runs all tasks. Else only
        those are cut whose pieces may run on any of several (`gpu_workers.engine.protocol.Divisible`). `apart`: whether
        a task must not share a batch with any other."""
        self._role = role
        self._limits = limits
        self._on_admitted = on_admitted
        self._one_worker = one_worker
        self._apart = apart
        self._waiting: FairQueue[PendingTask] = FairQueue()
        self._wanted: dict[int, _Wanted] = {}  # in the order of arrival
        self._numbers = itertools.count()
        self.pace = Pace(limits)
        self._shared = False  # whether the last batch had tasks of several requests
        self._length = QUEUE_LENGTH.labels(role)
        self._open = False

    def __len__(self) -> int:
        """The number of tasks that wait and have not started. It can be 0 while pieces wait; see `__bool__`."""
        return self._waiting.places

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def oldest_at(self) -> float:
        """The earliest admission of a waiting task, in `time.monotonic` seconds. Raises ValueError for an empty
        queue."""
        return min(pending.admitted_at for pending in self._waiting.heads())

    def fills(self, tokens: int) -> bool:
        """Whether the queued tasks fill a batch of so many tokens, and the next of them is not larger than that and
        shares a batch with others."""
        found = self._waiting.next()
        if found is None or self._waiting.work < tokens:
            return False
        head = found[1]
        return (
            not self.runs_alone(head)
            and (self._limits.piece_tokens_max if self._is_large(head) else head.work) <= tokens
        )

    def runs_alone(self, pending: PendingTask) -> bool:
        """Whether a task has a batch of its own: it must be apart, or takes long and may be suspended for others."""
        return self._apart(pending) or (self.is_long(pending) and pending.is_interruptible)

    def is_long(self, pending: PendingTask) -> bool:
        """Whether a worker suspends a task while it runs batches of others."""
        if pending.work <= self._limits.piece_tokens_max:
            return False
        return pending.is_interruptible or (pending.pauses and self.pace.is_slow)

    @property
    def budget(self) -> int:
        """The token budget of the next batch."""
        return self.pace.budget(self._waiting)

    def charge(self, tenant: str, seconds: float, *, estimated: int = 0) -> None:
        """Count the time of a worker towards a tenant's share, if it is far more than the `estimated` tokens, which
        were counted before, take."""
        excess = self.pace.tokens_in(seconds - OVERTIME_S) - estimated
        if excess > 0:
            self._waiting.charge(tenant, excess)

    def linger_s(self, longest_s: float) -> float:
        """How much longer a batch should wait for more tasks, at most `longest_s` since its oldest task arrived.

        It does not wait where nothing is likely to arrive: if the last two requests came further apart than that, and
        the last batch was of one request. Raises ValueError for an empty queue.
        """
        if (self.pace.gap_s > longest_s and not self._shared) or self._waiting.work >= self.budget:
            return 0.0
        return max(0.0, longest_s - (time.monotonic() - self.oldest_at))

    def open(self) -> None:
        """Start to admit tasks."""
        self._open = True
        self._shrank()

    def close(self) -> None:
        """Refuse all further tasks. Queued tasks end with `WorkerDied` if their group has started, else with
        `WorkerCold`."""
        self._open = False
        for pending in list(self._waiting):
            pending.settle(WorkerDied() if pending.group.started else WorkerCold())
        self._keep(lambda _: False)

    async def run(
        self,
        tasks: Sequence[Task],
        *,
        tenant: str,
        timeout_s: float,
        client_disconnected: asyncio.Event,
        isolate_failures: bool = False,
    ) -> list[Any]:
        """See `Engine.run`."""
        group = self._admit(tasks, tenant=tenant, isolate_failures=isolate_failures)
        disconnected: asyncio.Future[Any] = asyncio.ensure_future(client_disconnected.wait())
        either: set[asyncio.Future[Any]] = {group.done, disconnected}
        deadline = time.monotonic() + timeout_s
        try:
            await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not group.done.done() and not group.started:
                raise self._refused(ClientGone() if client_disconnected.is_set() else DeadlineBeforeStart())
            if not group.done.done():
                # Started: wait for the result even if the client has disconnected, because it can fetch the result by
                # its key.
                await asyncio.wait({group.done}, timeout=max(0.0, deadline - time.monotonic()))
            if not group.done.done():
                raise Started(code="deadline-exceeded") if group.started else self._refused(DeadlineBeforeStart())
            group.done.result()
            return group.results
        finally:
            disconnected.cancel()
            group.waiting.end()
            if not group.done.done():
                self._withdraw(group)
            # An error refers to this frame, and `done` to the error. Without this, payloads and the memory of their
            # arrays would stay until the next garbage collection.
            del group, either

    async def wait_for_capacity(self, tasks: Sequence[Task], *, tenant: str, timeout_s: float) -> None:
        """See `Engine.wait_for_capacity`."""
        count, work = len(tasks), _work(tasks)
        if never := self._refusal(count, work, held=(0, 0), others=(0, 0)):
            raise self._refused(never)
        deadline = time.monotonic() + timeout_s
        while refusal := self._refusal_of(count, work, tenant):
            number, free = next(self._numbers), asyncio.get_running_loop().create_future()
            self._wanted[number] = _Wanted(tenant, count, work, free)
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await free
            except TimeoutError:
                raise self._refused(refusal) from None
            finally:
                del self._wanted[number]

    def start_batch(
        self, tokens_max: int | None = None, *, fits: Callable[[PendingTask], bool] = lambda _: True
    ) -> list[PendingTask]:
        """Take the next tasks, up to the token budget of a batch and at least one. They count as started from now on.

        `tokens_max`: a smaller budget than that of the limits. `fits`: whether the worker can run a task. A tenant
        whose first task does not fit is passed over, and keeps its turn. The batch is empty if no task fits, or if all
        queued tasks belong to groups that have failed.
        """
        now = time.monotonic()
        budget = self.budget
        try:
            batch = self._taken(min(tokens_max or budget, budget), fits)
        finally:
            self._waiting.readmit()
        self._shrank()
        if batch:
            self._shared = batch[0].group is not batch[-1].group
            trace_batch(self._role, batch)
            for pending in batch:
                pending.group.starts += 1
                QUEUE_SECONDS.labels(self._role).observe(now - pending.admitted_at)
            BATCH_TASKS.labels(self._role).observe(len(batch))
        return batch

    def _taken(self, budget: int, fits: Callable[[PendingTask], bool]) -> list[PendingTask]:
        """The tasks of `start_batch`. Tenants whose first task does not fit are passed over afterwards."""
        batch: list[PendingTask] = []
        own_max = budget
        weight = 0
        by_tenant: dict[str, int] = {}
        while (found := self._waiting.next()) is not None:
            tenant, pending = found
            if pending.withdrawn:  # another task has failed and ended the whole group
                self._waiting.drop_of(tenant)
                continue
            if not fits(pending):
                self._waiting.pass_over(tenant)
                continue
            if self._cut(tenant, pending):
                continue
            if self._waiting.tenants > 1:
                own_max = self._limits.piece_tokens_max
            own = by_tenant.get(tenant, 0)
            alone = self.runs_alone(pending)
            if batch and alone:
                break
            if batch and weight + pending.work > budget:
                break
            if batch and own + pending.work > own_max:
                break
            batch.append(self._waiting.take_of(tenant))
            weight += pending.work
            by_tenant[tenant] = own + pending.work
            if alone:
                break
        return batch

    def put_back(self, batch: Sequence[PendingTask], lacking: Collection[int] = (), lost: bool = False) -> None:
        """Queue a batch of `start_batch` again, in its place. It no longer counts as started. For a batch of which it
        is certain that no worker has run anything, and that none will.

        `lacking`: the places of tasks whose files do not exist. They end, uncharged if nothing of their group has
        started. So does a task that was `lost` several times, because workers died before they had begun with it.
        """
        for pending in batch:
            pending.group.starts -= 1
            pending.lost += lost
            pending.leave_batch()
        for place, pending in reversed(list(enumerate(batch))):
            started = pending.group.started
            if place in lacking:
                pending.settle(_file_missing(started))
            elif not self._open:
                pending.settle(WorkerDied() if started else WorkerCold())
            elif pending.lost >= _LOST_MAX:
                pending.settle(WorkerDied() if started else WorkerCold(_LOST))
            elif not pending.withdrawn:
                self._waiting.put_back(pending.group.tenant, pending)
        self._changed()
        self._on_admitted()

    def _is_large(self, pending: PendingTask) -> bool:
        """Whether a task runs in pieces."""
        if pending.only_pieces:  # no handler can run it as it is
            return True
        cut = pending.task.stepwise or pending.work > self._limits.batch_tokens_max
        return cut and pending.is_divisible and (self._one_worker or pending.any_worker)

    def _cut(self, tenant: str, pending: PendingTask) -> bool:
        """Replace the next task by its pieces if it is large. Returns whether it was replaced."""
        if not self._is_large(pending):
            return False
        pieces = pending.cut(self._limits.piece_tokens_max, lambda task: self._complete(tenant, pending, task))
        if not pieces:
            return False
        self._waiting.drop_of(tenant)
        for piece in reversed(pieces):
            self._waiting.append_first(tenant, piece)
        return True

    def _complete(self, tenant: str, whole: PendingTask, task: Task) -> None:
        """Queue the task that completes `whole`, whose pieces have all been run."""
        if not self._open:
            whole.settle(WorkerDied())
        elif not whole.withdrawn:
            self._waiting.append_first(tenant, whole.followed_by(task))
            self._changed()
            self._on_admitted()

    def _refusal_of(self, tasks: int, work: int, tenant: str) -> NotStarted | None:
        held = self._waiting.held(tenant)
        others = (self._waiting.places - held[0], self._waiting.work - held[1])
        return self._refusal(tasks, work, held=held, others=others)

    def _refusal(
        self, tasks: int, work: int, *, held: tuple[int, int], others: tuple[int, int]
    ) -> QueueFull | TenantLimitReached | None:
        """Why so many tasks, with so many tokens, cannot be admitted now. `held`, `others`: the tenant's own tasks and
        tokens, and all others'."""
        limits = self._limits
        if held[0] + others[0] + tasks > limits.tasks_max:
            return QueueFull()
        if held[0] + tasks > tenant_places(limits.tasks_max, others=others[0], share=limits.tenant_share) or (
            held[0]
            and held[1] + work > max(limits.batch_tokens_max, limits.tenant_share * (limits.tokens_max - others[1]))
        ):
            return TenantLimitReached(limit="queue_tenant_share")
        return None

    def _admit(self, tasks: Sequence[Task], *, tenant: str, isolate_failures: bool) -> TaskGroup:
        if not self._open:
            raise self._refused(WorkerCold())
        if refusal := self._refusal_of(len(tasks), _work(tasks), tenant):
            raise self._refused(refusal)
        group = TaskGroup.of(len(tasks), tenant=tenant, isolate_failures=isolate_failures)
        group.waiting.set("gateway.role", self._role.value)
        now = time.monotonic()
        for index, task in enumerate(tasks):
            self._waiting.append(tenant, group.pending(index, task, admitted_at=now))
        self.pace.arrived(tenant, now)
        self._changed()
        self._on_admitted()
        return group

    def _withdraw(self, group: TaskGroup) -> None:
        self._keep(lambda pending: pending.group is not group)
        group.done.cancel()
        self._on_admitted()  # a worker may fit what was behind it

    def _keep(self, wanted: Callable[[PendingTask], bool]) -> None:
        self._waiting.keep(wanted)
        self._shrank()

    def _changed(self) -> None:
        self._length.set(len(self))

    def _shrank(self) -> None:
        """Let the callers of `wait_for_capacity` go on whose tasks can be admitted now. The others do not run: there
        may be hundreds of them."""
        self._changed()
        for each in self._wanted.values():
            if not each.free.done() and not self._refusal_of(each.tasks, each.work, each.tenant):
                each.free.set_result(None)

    def _refused(self, error: NotStarted) -> NotStarted:
        REFUSED.labels(self._role, error.code).inc()
        return error


class Engine(ABC):
    """Runs groups of tasks. A group holds the documents of one request and is admitted as a whole or not at all.

    `tests/gpu_workers/engine` holds the contract suite for all implementations.
    """

    arrays: ArrayPool  # memory for the arrays of payloads

    def __init__(self, queues: Mapping[Role, TaskQueue]) -> None:
        self._queues = queues

    @property
    def roles(self) -> Sequence[Role]:
        """The roles that this engine has workers for."""
        return tuple(self._queues)

    @abstractmethod
    async def start(self) -> None:
        """Start the workers. A role accepts no work until a worker has been ready once. `status` shows the progress."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the workers. A started task is finished or ends with `WorkerDied`; all others end with `WorkerCold`."""

    @abstractmethod
    def status(self, role: Role) -> RoleStatus:
        """The state of one of `roles`."""

    async def run(
        self,
        role: Role,
        tasks: Sequence[Task],
        *,
        tenant: str,
        timeout_s: float,
        client_disconnected: asyncio.Event,
        isolate_failures: bool = False,
    ) -> list[Any]:
        """Run a group and return its results in order.

        `tenant` is an opaque id, or `GATEWAY`. Tenants share the workers equally by the weight of their tasks
        (`gpu_workers.engine.fairness`). The groups of one tenant start in the order of their admission, and each tenant
        may hold only a share of the queue (`QueueLimits`). A task that is much larger than others runs in pieces if its
        payload is `Divisible`. If `client_disconnected` is set before any task of a group has started, the group is
        dropped. With `isolate_failures`, a started task that fails does not affect the other tasks of its group: its
        error takes the place of its result.

        Raises:
            NotStarted: no task of the group reached a worker (queue full, the tenant's share used up, worker cold or
                of another role, client disconnected, deadline).
                Nothing was read and no noise was drawn, so the caller may refund.
            Started: at least one task reached a worker, so the caller must count the group as spent.
        """
        return await self._queue(role).run(
            tasks,
            tenant=tenant,
            timeout_s=timeout_s,
            client_disconnected=client_disconnected,
            isolate_failures=isolate_failures,
        )

    async def wait_for_capacity(self, role: Role, tasks: Sequence[Task], *, tenant: str, timeout_s: float) -> None:
        """Return once the queue can admit `tasks` of `tenant`. It reserves nothing: another caller may fill the queue
        first.

        Raises:
            QueueFull: the queue stays too full for `timeout_s`, or its limit is below the number of tasks.
            TenantLimitReached: the same for the tenant's share of the queue.
            WorkerCold: the engine does not have this role.
        """
        await self._queue(role).wait_for_capacity(tasks, tenant=tenant, timeout_s=timeout_s)

    def _queue(self, role: Role) -> TaskQueue:
        if role not in self._queues:
            raise WorkerCold(NOT_SERVED)
        return self._queues[role]
