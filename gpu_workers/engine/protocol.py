"""The seam between the front end and whatever runs the work: one small protocol, no torch.

The front end knows `Engine`, `Task` and the errors of `core.errors`; it never knows a process or a device.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Role(StrEnum):
    """Which kind of worker runs a task.

    `FILL` sanitises with the fills of a language model, `SANITIZE` with all others: these must not wait behind a model
    that takes minutes, or that is somewhere else and does not answer.
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
    """What `/readyz` and `/models` say of a role. `facts` are public and hold no request data."""

    ready: bool
    stage: str
    queued: int
    facts: Mapping[str, Any]


class Engine(Protocol):
    """Runs groups of tasks. A group is the documents of one request: admitted whole or not at all."""

    @property
    def roles(self) -> Sequence[Role]:
        """Those that it has workers for."""
        ...

    async def start(self) -> None:
        """Begin to load the workers; returns at once."""
        ...

    async def stop(self) -> None:
        """End the workers. Work that had started ends as `WorkerDied`, the rest as `WorkerCold`."""
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

        `client_disconnected` says that the client has left: a group of which nothing has started is dropped then. With
        `isolate_failures` a started task that fails leaves its siblings alone: its error stands in its place among the
        results.

        Raises:
            NotStarted: no task of the group reached a worker (queue full, worker cold, client gone, deadline):
                nothing was read, no noise was drawn, the caller may refund.
            Started: at least one task reached a worker: the caller must count the group as spent.
        """
        ...

    def status(self, role: Role) -> RoleStatus: ...
