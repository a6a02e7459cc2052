"""The interface between the front end and whatever runs the work. It imports no torch and assumes no shared host.

The front end uses `Engine`, `Task` and the errors of `core.errors`. Processes, devices and machines belong to the
implementations: `gpu_workers.engine.local` and `gpu_workers.engine.inline`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from gpu_workers.engine.arrays import ArrayPool
from gpu_workers.facts import WorkerFacts


class Role(StrEnum):
    """Which kind of worker runs a task.

    `FILL` sanitises with the fills of a language model, `SANITIZE` with all others: these must not wait behind a model
    that takes minutes, or behind a remote one that does not answer.
    """

    EMBED = "embed"
    SANITIZE = "sanitize"
    FILL = "fill"


@dataclass(frozen=True)
class Task:
    """One document's work. `payload` is what the role's handler takes; `weight` is its estimated size in tokens,
    which counts towards a batch's token budget."""

    payload: Any
    weight: int


@dataclass(frozen=True)
class RoleStatus:
    """What `/readyz` and `/models` show of a role. `facts`: what its worker reported; None until one was ready.
    They are public and hold no request data."""

    ready: bool
    stage: str
    queued: int
    facts: WorkerFacts | None


class Engine(Protocol):
    """Runs groups of tasks. A group is the documents of one request: admitted whole or not at all.

    `tests/gpu_workers/engine` holds the contract that every implementation meets.
    """

    @property
    def roles(self) -> Sequence[Role]:
        """The roles that this engine has workers for."""
        ...

    @property
    def arrays(self) -> ArrayPool:
        """Memory for the arrays of payloads. An engine takes arrays of its own pool only."""
        ...

    async def start(self) -> None:
        """Start the workers. A role takes no work until it has been ready once; `status` shows how far it is."""
        ...

    async def stop(self) -> None:
        """End the workers. Work that has started is finished or ends as `WorkerDied`; the rest ends as
        `WorkerCold`."""
        ...

    async def run(
        self,
        role: Role,
        tasks: Sequence[Task],
        *,
        timeout_s: float,
        client_disconnected: asyncio.Event,
        isolate_failures: bool = False,
    ) -> list[Any]:
        """Run a group and return its results in order.

        Groups start in the order of their admission. A group of which nothing has started is dropped once
        `client_disconnected` is set. With `isolate_failures` a started task that fails does not affect the other
        tasks of its group: its error takes the place of its result.

        Raises:
            NotStarted: no task of the group reached a worker (queue full, worker cold, client disconnected, deadline):
                nothing was read, no noise was drawn, the caller may refund.
            Started: at least one task reached a worker: the caller must count the group as spent.
        """
        ...

    async def wait_for_capacity(self, role: Role, tasks: int, *, timeout_s: float) -> None:
        """Return once the queue can take `tasks` more. Nothing is reserved: another caller may take the places first.

        Raises:
            QueueFull: the queue stays too full for `timeout_s`, or never holds so many.
        """
        ...

    def status(self, role: Role) -> RoleStatus: ...
