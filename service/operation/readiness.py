"""Readiness: every worker is warm and computes a public probe correctly, and the ledger takes a durable write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import DeadlineBeforeStart, QueueFull, TenantLimitReached, WorkerCold
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.protocol import GATEWAY, Engine, Role, Task
from gpu_workers.handlers.tasks import EmbedTask
from service.workers import Workers

if TYPE_CHECKING:  # the routes of health load as little as they can
    from core.ledger.transitions import Ledger

PROBE_S_MAX = 10.0
_PLANTED = "canary@example.com"
_EPSILON_NANO = 10**9


class Readiness:
    """Checks the gateway's parts; a success is valid for `cache_s` seconds."""

    def __init__(
        self, engine: Engine, ledger: Ledger, *, cache_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._workers = Workers(engine)
        self._ledger = ledger
        self._cache_s = cache_s
        self._clock = clock
        self._ready_until = 0.0
        self._checking = asyncio.Lock()

    def stages(self) -> dict[str, str]:
        """How far the workers of each role are."""
        return {role.value: self._engine.status(role).stage for role in self._engine.roles}

    async def check(self) -> None:
        """Raise the first error that a part has: WorkerCold, LedgerUnavailable or another of the tree."""
        async with self._checking:  # one check at a time, however many callers there are
            if self._clock() < self._ready_until:
                return
            await self._ledger.ping_write()
            await asyncio.gather(*(self._check_role(role) for role in self._engine.roles))
            self._ready_until = self._clock() + self._cache_s

    async def _check_role(self, role: Role) -> None:
        if role is Role.FILL:
            # It was checked at its start. A probe would wait behind a slow model, and the other roles do not need this
            # one.
            if not self._engine.status(role).ready:
                raise WorkerCold
            return
        probe = Task(_probe(role, self._workers.tagger_types), 1)
        try:
            results = await self._engine.run(
                role, [probe], tenant=GATEWAY, timeout_s=PROBE_S_MAX, client_disconnected=asyncio.Event()
            )
        except (QueueFull, TenantLimitReached, DeadlineBeforeStart):
            if self._engine.status(role).ready:
                return  # a busy role is ready
            raise
        _check_probe(role, results[0])


def _probe(role: Role, tagger_types: Sequence[str]) -> Any:
    """A public task of that role; the tagger reads its text as well."""
    if role is Role.EMBED:
        return EmbedTask(("This sentence is public.",), None, "sentence_codes", "general", _EPSILON_NANO)
    policy = MaskPolicy().completed(tagger_types)
    return SanitizeTask(text=f"Write to {_PLANTED} now.", policy=policy, fill="class_marker")


def _check_probe(role: Role, result: Any) -> None:
    """Raises WorkerCold when the worker's answer is wrong: such a worker must not serve."""
    if role is Role.EMBED:
        right = bool(np.isfinite(result.vector).all())
    else:
        right = _PLANTED not in result.text and bool(result.spans)
    if not right:
        raise WorkerCold
