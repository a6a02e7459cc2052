"""The queue of one role, and the worker servers that it uses.

A slot comes first and a batch second: the gateway asks a server for a slot, takes the batch from its queue when it has
one, and sends it. It asks for no more slots than its queue fills, and for none while the queue is empty. While a server
says that its slots are taken, another one is asked too; a slot that is granted too late is given back at once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.errors import WorkerCold
from gpu_workers.engine import metrics
from gpu_workers.engine.protocol import Role, RoleStatus
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.object_sender import Needs
from gpu_workers.engine.remote.replica import Lane, Phase, Replica
from gpu_workers.engine.remote.supply import Supply
from gpu_workers.engine.task_queue import FILE_MISSING, QueueLimits, TaskQueue
from gpu_workers.facts import WorkerFacts

log = logging.getLogger("privacy_gateway.engine")

CHECK_S = 1.0
_ASKED = (Phase.ASKING, Phase.GRANTED)


@dataclass(frozen=True)
class RemotePoolOptions:
    """Limits of one role, all of them settings of the gateway."""

    limits: QueueLimits = field(default_factory=QueueLimits)
    batch_linger_ms: float = 2.0


class RemotePool:
    """Used on the event loop only, without locks."""

    def __init__(self, role: Role, options: RemotePoolOptions, codec: Codec, access: Access, needs: Needs) -> None:
        self.role = role
        self._options = options
        self._codec = codec
        self._access = access
        self._gateway = secrets.token_hex(8)
        self._wake = asyncio.Event()
        self.queue = TaskQueue(role, options.limits, on_admitted=self._wake.set, one_worker=False)
        self.supply = Supply(role, self.queue, needs, on_change=self._wake.set)
        self._replicas: dict[str, Replica] = {}
        self._fingerprint = ""
        self._facts: WorkerFacts | None = None
        self._deaths: dict[str, int] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._stopping = False

    def start(self) -> None:
        for loop in (self._dispatch, self._check):
            task = asyncio.ensure_future(self._restart_on_failure(loop))
            self._background.add(task)

    async def stop(self) -> None:
        self._stopping = True
        for task in self._background:
            task.cancel()
        self.queue.close()
        await self.supply.stop()
        await asyncio.gather(*(replica.stop() for replica in self._replicas.values()), *self._leaving)

    def use(self, addresses: Sequence[str]) -> dict[str, str]:
        """Use the servers at `addresses`, and no others. A server that is no longer listed finishes what it has.

        Returns the addresses that cannot be used, each with the kind of its error.
        """
        unusable = {}
        for address in addresses:
            if address not in self._replicas:
                try:
                    self._connect(address)
                except Exception as error:  # a file of TLS may be replaced at that time
                    unusable[address] = type(error).__name__
        for address in self._replicas.keys() - set(addresses):
            leaving = asyncio.ensure_future(self._replicas.pop(address).stop(grace_s=3600))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        self._changed()
        return unusable

    def _connect(self, address: str) -> None:
        """Raises ValueError or OSError for an address or TLS files that cannot be used."""
        replica = Replica(
            address,
            self._codec,
            self._access,
            gateway=self._gateway,
            on_state=self._changed,
            on_lane=self._wake.set,
            put_back=self.queue.put_back,
            on_batch=self._measured,
            on_sent=metrics.FILES_BYTES.labels(self.role).inc,
        )
        self._replicas[address] = replica
        replica.start()

    def status(self) -> RoleStatus:
        ready = [replica for replica in self._used if replica.ready]
        return RoleStatus(ready=bool(ready), stage=self._stage(ready), queued=len(self.queue), facts=self._facts)

    def _stage(self, ready: Sequence[Replica]) -> str:
        if ready:
            return "ready"
        shown = [replica.state.shown for replica in self._replicas.values() if replica.reachable and replica.state]
        return shown[0] if shown else "no worker can be reached"

    @property
    def _used(self) -> list[Replica]:
        """The servers with the models and packs that this gateway uses."""
        return [
            replica
            for replica in self._replicas.values()
            if replica.state is not None and replica.state.role is self.role and self._fits(replica.state.fingerprint)
        ]

    def _fits(self, fingerprint: str) -> bool:
        return fingerprint in ("", self._fingerprint)

    def _changed(self) -> None:
        """Choose the servers that are used, after a change of one of them."""
        if not self._stopping:
            self._choose()
        self._wake.set()

    def _choose(self) -> None:
        """All servers in use have one fingerprint. The gateway changes to another one when no server with the present
        one can be reached, and never mixes two."""
        own = [replica.state for replica in self._replicas.values() if replica.reachable and replica.state]
        own = [state for state in own if state.role is self.role and state.fingerprint]
        if own and not any(state.fingerprint == self._fingerprint for state in own):
            own_schema = self._codec.schema  # a worker of other code refuses this gateway
            chosen = next((state for state in own if state.ready and state.schema == own_schema), None)
            if chosen is not None:
                self._fingerprint, self._facts = chosen.fingerprint, chosen.facts
        others = sum(state.fingerprint != self._fingerprint for state in own)
        metrics.WORKERS_REFUSED.labels(self.role).set(others)
        reachable = [replica for replica in self._used if replica.reachable]
        metrics.WORKER_READY.labels(self.role).set(sum(replica.ready for replica in reachable))
        for replica in reachable:
            if replica.state is not None:
                known = self._deaths.get(replica.state.instance, replica.state.deaths)
                metrics.WORKER_RESTARTS.labels(self.role).inc(max(0, replica.state.deaths - known))
                self._deaths[replica.state.instance] = replica.state.deaths
        self.queue.has_one_worker(len(reachable) == 1)
        if not reachable:
            self.queue.pause()
        elif any(replica.ready for replica in reachable):
            self.queue.open()

    async def _check(self) -> None:
        """Notice servers that have become silent."""
        while True:
            await asyncio.sleep(CHECK_S)
            self._changed()

    def _measured(self, tokens: int, seconds: float) -> None:
        metrics.BATCH_SECONDS.labels(self.role).observe(seconds)
        self.queue.pace.measured(tokens, seconds)

    async def _restart_on_failure(self, loop: Callable[[], object]) -> None:
        while True:
            try:
                await loop()  # type: ignore[misc]
            except Exception as error:
                log.error("engine-loop", extra={"fields": {"role": self.role.value, "kind": type(error).__name__}})
                self._wake.set()
                await asyncio.sleep(0.1)

    async def _dispatch(self) -> None:
        """Ask for slots and use them until the pool stops."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for replica in self._replicas.values():
                for lane in replica.lanes:
                    if lane.phase is Phase.GRANTED:
                        self._use_slot(replica, lane)
            self._ask()

    def _use_slot(self, replica: Replica, lane: Lane) -> None:
        """Send a batch under a granted slot, give the slot back, or wait a moment for more tasks."""
        tokens_max = self._tokens_for(replica) if self.queue else 0
        if tokens_max == 0:
            lane.release()
            return
        if (left_s := self.queue.linger_s(self._options.batch_linger_ms / 1000)) > 0:
            asyncio.get_running_loop().call_later(left_s, self._wake.set)
        elif batch := self.queue.start_batch(tokens_max, fits=self.supply.fits(replica)):
            lane.run(batch)
        else:
            lane.release()

    def _ask(self) -> None:
        """Ask for as many slots as the queue fills."""
        if not self.queue:
            return
        asked = sum(lane.phase in _ASKED for replica in self._replicas.values() for lane in replica.lanes)
        needed = -(-self.queue.work // max(1, self.queue.budget))
        while asked < needed and (lane := self._free_lane()) is not None:
            lane.ask()
            asked += 1
        if asked < needed:
            self.supply.bring(self._used)

    async def prepare(self, payloads: Iterable[Any], *, timeout_s: float) -> None:
        """See `Engine.prepare`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.supply.prepare([replica for replica in self._used if replica.ready], payloads)
        except TimeoutError:
            raise WorkerCold(FILE_MISSING) from None

    def _free_lane(self) -> Lane | None:
        """A lane of the ready server that has least to do for this gateway."""
        free = []
        for replica in self._used:
            idle = [lane for lane in replica.lanes if lane.phase is Phase.IDLE]
            others = len(replica.lanes) - len(idle)
            # A second slot is for a full batch behind one that runs: a batch that is not full may still grow.
            takes_one = others == 0 or (replica.busy and self._tokens_for(replica))
            if idle and replica.ready and takes_one and self.supply.serves(replica):
                free.append((others, idle[0]))
        return min(free, key=lambda entry: entry[0])[1] if free else None

    def _tokens_for(self, replica: Replica) -> int:
        """The token budget of the next batch for a server; 0 if none should follow the one that runs there."""
        budget = self.queue.budget
        if not replica.busy:
            return budget
        left = budget + self._options.limits.piece_tokens_max - replica.tokens
        return left if left > 0 and self.queue.fills(min(left, budget)) else 0


def pools(
    options: Mapping[Role, RemotePoolOptions], codec: Codec, access: Access, needs: Needs
) -> dict[Role, RemotePool]:
    """A pool for each role."""
    return {role: RemotePool(role, own, codec, access, needs) for role, own in options.items()}
