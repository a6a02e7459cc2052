"""A task between its admission and its result, as a whole or in pieces, and the group that it was admitted with.

`trace_batch` links requests to the batches that run them. A batch is a trace of its own, because it runs tasks of
several requests. It is linked to the requests that start with it, and they to it. Later batches of a request, with the
pieces of a large document, have no link to it: their number would tell the length of the document.

`Quarantine` decides which tasks run apart from all others. A worker that is killed, by the system for its memory or by
the pool for its time, does not say which task of its batch was the cause. Each of them is therefore suspected, and so
is its tenant:

* A document that was in the batch runs alone, whoever sends it again, until it has once completed alone.
* A tenant whose tasks were in one such batch runs alone until one of its tasks has completed alone. After a second one,
  it runs alone for `RETENTION_S`, so that a document that differs each time does not help.

Guarantee: during the retention, a document ends a batch of others once, and a tenant twice. No text is kept: a document
is identified by an HMAC of its strings under a random key of this process.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from core import spans
from core.errors import GatewayError, NotStarted, TaskFailed
from core.guarded import guarded
from core.spans import TraceSpan
from gpu_workers.engine.protocol import Divided, Divisible, Joined, Role, Task

Settle = Callable[[Any], None]


class BatchSpan:
    """The span of a batch, from the moment that it is taken from the queue until its last task has a result.

    Workers get no ids of traces: the gateway knows the batch that an answer belongs to, so a worker cannot name another
    trace.
    """

    def __init__(self, span: TraceSpan, tasks: int) -> None:
        self._span = span
        self._unfinished = tasks

    def worked(self, seconds: float) -> None:
        """The worker has reported how long it worked on the batch. The rest is the way, and the wait behind another
        batch of the worker."""
        work = self._span.child("work")
        work.start_ns -= int(seconds * 1e9)
        work.end()

    def finished(self, result: Any) -> None:
        """One of the tasks has its result."""
        if isinstance(result, GatewayError):
            self._span.fail(result)
        self._unfinished -= 1
        if self._unfinished == 0:
            self._span.end()


@cache
def _is_divisible(payload: type) -> bool:
    return issubclass(payload, Divisible)  # which takes longer than the rest of an admission


@dataclass(eq=False)
class TaskGroup:
    """The tasks of one request, which are admitted together. `starts`: how often one of its tasks was started.
    `waiting`: the span of their wait."""

    tenant: str
    results: list[Any]
    done: asyncio.Future[None]
    unfinished: int
    isolate_failures: bool
    waiting: TraceSpan
    starts: int = 0

    @classmethod
    def of(cls, tasks: int, *, tenant: str, isolate_failures: bool) -> TaskGroup:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = spans.span("wait for a worker")
        return cls(tenant, [None] * tasks, done, unfinished=tasks, isolate_failures=isolate_failures, waiting=waiting)

    @property
    def started(self) -> bool:
        """Whether a worker may have begun with a task of the group."""
        return self.starts > 0

    def pending(self, index: int, task: Task, *, admitted_at: float) -> PendingTask:
        """The task at `index` of the group."""
        return PendingTask(task, self, admitted_at, settle=partial(self._settle, index), places=1)

    def _settle(self, index: int, result: Any) -> None:
        if self.done.done():
            return
        if isinstance(result, GatewayError) and not (self.isolate_failures and self.started):
            self.done.set_exception(result)
            return
        self.results[index] = result
        self.unfinished -= 1
        if self.unfinished == 0:
            self.done.set_result(None)


@dataclass(eq=False)
class PendingTask:
    """A task, or a piece of one, from its admission until its result.

    `settle` gets the result, or the error that ends it. `places`: what it counts towards the limit on queued tasks; the
    pieces of a task have been admitted with it and count no more than it did.
    """

    task: Task
    group: TaskGroup
    admitted_at: float  # `time.monotonic` seconds
    settle: Settle
    places: int
    cut_from: _Cut | None = None
    in_batch: BatchSpan | None = None
    lost: int = 0  # how often it was in the batch of a worker that died before it had begun with it
    digest: bytes | None = None  # of its text, once the quarantine has computed it

    @property
    def work(self) -> int:
        return max(1, self.task.weight)

    @property
    def withdrawn(self) -> bool:
        """Whether nobody waits for the result: the group has ended, or another piece of the same task has failed."""
        return self.group.done.done() or (self.cut_from is not None and self.cut_from.ended)

    def finish(self, result: Any) -> None:
        """Set a worker's result. The task was passed to a worker, so no result can lead to a refund."""
        if self.in_batch is not None:
            self.in_batch.finished(result)
        self.settle(TaskFailed() if isinstance(result, NotStarted) else result)

    def leave_batch(self) -> None:
        """No worker has run the batch that the task was in."""
        if self.in_batch is not None:
            self.in_batch.finished(None)
            self.in_batch = None

    @property
    def is_divisible(self) -> bool:
        return _is_divisible(self.task.payload.__class__)

    @property
    def is_interruptible(self) -> bool:
        """Whether a worker may run other batches in the middle of the task."""
        return getattr(self.task.payload, "interruptible", False)

    @property
    def pauses(self) -> bool:
        """Whether a worker may run other batches between two steps of the task."""
        return getattr(self.task.payload, "pauses", False)

    @property
    def only_pieces(self) -> bool:
        """Whether no handler can run the task as it is."""
        return self.is_divisible and getattr(self.task.payload, "only_pieces", False)

    @property
    def any_worker(self) -> bool:
        """Whether the pieces of the task may run on several workers."""
        return self.is_divisible and getattr(self.task.payload, "any_worker", False)

    def cut(self, work_max: int, complete: Callable[[Task], None]) -> list[PendingTask]:
        """The pieces of this task; none if it cannot be divided. `complete` gets the task that follows them."""
        payload = self.task.payload
        pieces = payload.pieces(work_max) if self.is_divisible else None
        if pieces is None:
            return []
        own = _Cut(self, pieces, complete)
        return [
            PendingTask(
                task,
                self.group,
                self.admitted_at,
                settle=partial(own.settle, index),
                places=self.places if index == 0 else 0,
                cut_from=own,
            )
            for index, task in enumerate(pieces.tasks)
        ]

    def followed_by(self, task: Task) -> PendingTask:
        """The task that completes this one after its pieces."""
        return PendingTask(task, self.group, self.admitted_at, settle=self.settle, places=0, cut_from=self.cut_from)


class _Cut:
    """A task that runs in pieces."""

    def __init__(self, whole: PendingTask, pieces: Divided, complete: Callable[[Task], None]) -> None:
        self._failed = False
        self._whole = whole
        self._join = pieces.join
        self._complete = complete
        self._results: list[Any] = [None] * len(pieces.tasks)
        self._unfinished = len(pieces.tasks)

    @property
    def ended(self) -> bool:
        """Whether the results of further pieces are of no use."""
        return self._failed or self._whole.withdrawn

    def settle(self, index: int, result: Any) -> None:
        """Set the result of one piece. The first error is that of the whole task."""
        if self._failed:
            return
        if isinstance(result, GatewayError):
            self._failed = True
            self._whole.settle(result)
            return
        self._results[index] = result
        self._unfinished -= 1
        if self._unfinished:
            return
        joined = guarded(self._join, self._results)
        self._results = []
        if isinstance(joined, Task):
            self._complete(joined)
        else:
            self._whole.finish(joined.result if isinstance(joined, Joined) else joined)


def trace_batch(role: Role, batch: Sequence[PendingTask]) -> None:
    """Begin the span of a batch whose groups are not marked as started yet, and end their wait."""
    if not spans.is_installed():
        return
    starting = {id(pending.group): pending.group for pending in batch if not pending.group.started}.values()
    waits = [group.waiting for group in starting if group.waiting]
    if not waits:
        return
    span = spans.root("batch", because_of=waits)
    span.set("gateway.role", role.value)
    for wait in waits:
        if not wait.end_ns:  # it has ended if an earlier batch was not run
            wait.link(span)
            wait.end()
    whole = BatchSpan(span, len(batch))
    for pending in batch:
        pending.in_batch = whole


def trace_work(batch: Sequence[PendingTask], seconds: float) -> None:
    """Record the time that a worker reports for a batch. Call it before the tasks are finished."""
    if batch and batch[0].in_batch is not None:
        batch[0].in_batch.worked(seconds)


RETENTION_S = 300.0
DOCUMENTS_MAX = 4_096  # digests that are kept; a batch has some hundred documents at most
DEATHS_MAX = 2  # of batches with tasks of one tenant, until it runs alone for the whole retention


class Quarantine:
    """Used on the event loop only, without locks."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._documents: OrderedDict[bytes, float] = OrderedDict()  # digest -> when it was last in such a batch
        self._deaths: dict[str, list[float]] = {}  # when batches with a tenant's tasks have ended a worker
        self._suspected: set[str] = set()  # of these tenants, those that run alone

    def suspect(self, batch: Sequence[PendingTask]) -> None:
        """A worker has died while it ran `batch`."""
        now = time.monotonic()
        self._expire(now)
        for pending in batch:
            digest = self._digest(pending)
            self._documents[digest] = now
            self._documents.move_to_end(digest)
        while len(self._documents) > DOCUMENTS_MAX:
            self._documents.popitem(last=False)
        for tenant in {pending.group.tenant for pending in batch}:
            self._deaths[tenant] = [*self._deaths.get(tenant, ()), now][-DEATHS_MAX:]
            self._suspected.add(tenant)

    def holds(self, pending: PendingTask) -> bool:
        """Whether a task must run apart from all others."""
        if not self._documents and not self._suspected:
            return False
        self._expire(time.monotonic())
        return pending.group.tenant in self._suspected or self._digest(pending) in self._documents

    def completed(self, pending: PendingTask) -> None:
        """A worker has run a task that it held, and lives."""
        self._documents.pop(self._digest(pending), None)
        if len(self._deaths.get(pending.group.tenant, ())) < DEATHS_MAX:
            self._suspected.discard(pending.group.tenant)

    def _expire(self, now: float) -> None:
        while self._documents and next(iter(self._documents.values())) < now - RETENTION_S:
            self._documents.popitem(last=False)
        for tenant in [name for name, deaths in self._deaths.items() if deaths[-1] < now - RETENTION_S]:
            del self._deaths[tenant]
            self._suspected.discard(tenant)

    def _digest(self, pending: PendingTask) -> bytes:
        """The keyed digest of the strings of a payload. Other members, such as a key that is drawn for each request, do
        not count, so that a document keeps its digest."""
        if pending.digest is None:
            payload = pending.task.payload
            content = "\0".join((type(payload).__name__, *_strings(payload)))
            pending.digest = hmac.digest(self._key, content.encode("utf-8", "surrogatepass"), "sha256")
        return pending.digest


def _strings(payload: Any) -> Iterator[str]:
    for value in vars(payload).values() if hasattr(payload, "__dict__") else ():
        if isinstance(value, str):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (each for each in value if isinstance(each, str))
