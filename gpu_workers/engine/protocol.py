"""The interface between the front end and the engine. It imports no torch and assumes no shared host.

The front end uses `Engine`, `Task` and the errors of `core.errors`. Processes, devices and machines are details of the
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
    """The kind of worker that runs a task.

    `FILL` sanitises with the fills of a language model, `SANITIZE` with all others. The roles are separate so that the
    other fills do not wait for a model that takes minutes or for a remote model that does not answer.
    """

    EMBED = "embed"
    SANITIZE = "sanitize"
    FILL = "fill"


@dataclass(frozen=True)
class Task:
    """The work for one document. `payload` is the input of the role's handler. `weight` is its estimated size in
    tokens, which counts towards a batch's token budget."""

    payload: Any
    weight: int


@dataclass(frozen=True)
class RoleStatus:
    """What `/readyz` and `/models` show for a role. `facts`: what its worker reported, None until one was ready. They
    are public and hold no request data."""

    ready: bool
    stage: str
    queued: int
    facts: WorkerFacts | None


class Engine(Protocol):
    """Runs groups of tasks. A group holds the documents of one request and is admitted as a whole or not at all.

    `tests/gpu_workers/engine` holds the contract suite for all implementations.
    """

    @property
    def roles(self) -> Sequence[Role]:
        """The roles that this engine has workers for."""
        ...

    @property
    def arrays(self) -> ArrayPool:
        """Memory for the arrays of payloads. An engine accepts only arrays from its own pool."""
        ...

    async def start(self) -> None:
        """Start the workers. A role accepts no work until a worker has been ready once. `status` shows the progress."""
        ...

    async def stop(self) -> None:
        """Stop the workers. A started task is finished or ends with `WorkerDied`; all others end with `WorkerCold`."""
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

        Groups start in the order of their admission. If `client_disconnected` is set before any task of a group has
        started, the group is dropped. With `isolate_failures`, a started task that fails does not affect the other
        tasks of its group: its error takes the place of its result.

        Raises:
            NotStarted: no task of the group reached a worker (queue full, worker cold, client disconnected, deadline).
                Nothing was read and no noise was drawn, so the caller may refund.
            Started: at least one task reached a worker, so the caller must count the group as spent.
        """
        ...

    async def wait_for_capacity(self, role: Role, tasks: int, *, timeout_s: float) -> None:
        """Return once the queue can admit `tasks` more tasks. It reserves nothing: another caller may fill the queue
        first.

        Raises:
            QueueFull: the queue stays too full for `timeout_s`, or its limit is below `tasks`.
        """
        ...

    def status(self, role: Role) -> RoleStatus: ...
