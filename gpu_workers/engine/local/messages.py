"""The messages between the gateway and a worker process, over a socket that only these two can access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_workers.engine.arrays import Block, blocks_of
from gpu_workers.facts import WorkerFacts


@dataclass(frozen=True)
class Stage:
    """A step of loading, which is shown to waiting callers."""

    name: str


@dataclass(frozen=True)
class Failed:
    """The worker exits before it is ready. `reason` is public."""

    reason: str


@dataclass(frozen=True)
class Ready:
    facts: WorkerFacts


@dataclass(frozen=True)
class Batch:
    """`says_begun`: the worker sends `Begun` once it has read the batch."""

    batch_id: int
    payloads: list[Any]
    says_begun: bool = False

    @property
    def blocks(self) -> list[Block]:
        """The shared memory of the payloads, which is sent after the message."""
        return blocks_of(self.payloads)


@dataclass(frozen=True)
class Begun:
    """The worker is about to run the batch. It has drawn nothing of it before it has written this message."""

    batch_id: int


@dataclass(frozen=True)
class Done:
    """`results` holds a result or a `GatewayError` for each payload."""

    batch_id: int
    results: list[Any]
    seconds: float
