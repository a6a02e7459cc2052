"""The objects that the tasks of one role need, and the servers of the role.

Guarantee: a task is taken from the queue only for a server that is known to have what it needs. While something is
brought the task waits as any other: it has not started, and its deadline and its client end it without a charge. If no
server that is ready keeps an object, or this gateway has lost it, the task ends as not started.

An object is brought to one server before a release is reserved (`prepare`), and to a further one when that server would
otherwise be idle beside a queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from core.errors import WorkerCold
from gpu_workers.engine import metrics
from gpu_workers.engine.pending import PendingTask
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.frames import BadFrame
from gpu_workers.engine.remote.object_sender import Lost, Need, Needs, Refused
from gpu_workers.engine.remote.replica import Phase, Replica
from gpu_workers.engine.task_queue import FILE_MISSING, TaskQueue

log = logging.getLogger("privacy_gateway.engine")

_RETRY_S = 0.2  # after a connection that failed


class Supply:
    """Used on the event loop only, without locks. `on_change` is called when a server has got something."""

    def __init__(self, role: Role, queue: TaskQueue, needs: Needs, *, on_change: Callable[[], None]) -> None:
        self._role = role
        self._queue = queue
        self._needs = needs
        self._on_change = on_change
        self._bringing: dict[tuple[Need, ...], asyncio.Task[None]] = {}

    async def stop(self) -> None:
        for task in self._bringing.values():
            task.cancel()
        await asyncio.gather(*self._bringing.values(), return_exceptions=True)

    def fits(self, replica: Replica) -> Callable[[PendingTask], bool]:
        """Whether a server can run a task."""
        return lambda pending: replica.objects.has(self._needs.of_task(pending))

    def serves(self, replica: Replica) -> bool:
        """Whether a server can run the first task of a tenant."""
        return any(map(self.fits(replica), self._queue.firsts()))

    def bring(self, replicas: Sequence[Replica]) -> None:
        """Give each idle server what the next task that it cannot run needs, unless another one is being given it."""
        ready = [replica for replica in replicas if replica.ready]
        for replica in ready:
            if all(lane.phase is not Phase.IDLE for lane in replica.lanes):
                continue
            for pending in list(self._queue.heads()):
                needs = self._needs.of_task(pending)
                if replica.objects.has(needs):
                    continue
                if all(other.objects.refuses(needs) for other in ready):
                    self._refuse(needs)
                elif not replica.objects.refuses(needs):
                    self._start(replica, needs, ready)
                    break

    async def prepare(self, replicas: Sequence[Replica], payloads: Iterable[Any]) -> None:
        """Return once for each payload one of the servers has what it needs. Raises WorkerCold if none can get it."""
        for needs in dict.fromkeys(map(self._needs.of, payloads)):
            if not needs or not replicas or any(replica.objects.has(needs) for replica in replicas):
                continue
            for replica in sorted(replicas, key=lambda each: each.tokens):
                if await self._bring(replica, needs):
                    break
            else:
                raise WorkerCold(FILE_MISSING)

    async def _bring(self, replica: Replica, needs: Sequence[Need]) -> bool:
        """Whether a server has got something. Raises WorkerCold if this gateway has lost it."""
        if replica.objects.refuses(needs):
            return False
        try:
            await replica.objects.bring(needs)
        except Lost:
            self._log(replica, needs, "lost")
            raise WorkerCold(FILE_MISSING) from None
        except Refused as refused:
            self._log(replica, needs, refused.reason)
            return False
        except BadFrame:
            return False
        self._on_change()
        return True

    async def _brought(self, replica: Replica, needs: Sequence[Need]) -> None:
        """Bring something that tasks in the queue need. They end if this gateway has lost it."""
        try:
            brought = await self._bring(replica, needs)
        except WorkerCold:
            self._refuse(needs)
            return
        if not brought:  # the next look at the queue tries again, or ends the tasks
            await asyncio.sleep(_RETRY_S)

    def _refuse(self, needs: Sequence[Need]) -> None:
        self._queue.refuse(lambda pending: self._needs.of_task(pending) == needs)

    def _start(self, replica: Replica, needs: tuple[Need, ...], replicas: Sequence[Replica]) -> None:
        """Begin to bring something, unless a server is being given it."""
        if needs in self._bringing or any(other.objects.is_bringing(needs) for other in replicas):
            return
        task = asyncio.ensure_future(self._brought(replica, needs))
        self._bringing[needs] = task

        def ended(_: object) -> None:
            del self._bringing[needs]
            self._on_change()

        task.add_done_callback(ended)

    def _log(self, replica: Replica, needs: Sequence[Need], reason: str) -> None:
        metrics.FILES_REFUSED.labels(self._role, reason).inc()
        digests = [need.key[1] for need in needs]
        fields = {"role": self._role.value, "address": replica.address, "digests": digests, "reason": reason}
        log.warning("worker-file-refused", extra={"fields": fields})
