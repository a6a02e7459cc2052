"""What the gateway and a worker process say to each other, over a socket that only these two hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_workers.endpoint import Endpoint
from gpu_workers.engine.local.shared_memory import SharedBlock
from gpu_workers.tasks import VectorTask

TAGGER_BUNDLED, TAGGER_OFF = "bundled", "off"  # any other tagger is the folder of a token classifier
INFILL_BUNDLED, INFILL_OFF = "bundled", "off"
InfillSource = str | Endpoint  # one of those two, the folder of a language model, or an endpoint


class UnfitDevice(RuntimeError):
    """This device does not compute what a guarantee relies on: the worker must not serve.

    The message is public: `/readyz` and `/models` show it.
    """


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker needs to load. Paths and names come from the operator's settings, never from a request."""

    device: str = "cpu"
    threads: int = 0
    encoder_path: str | None = None
    domain_packs_dir: str | None = None
    allow_lists_dir: str | None = None
    tagger: str = TAGGER_BUNDLED
    infill: InfillSource = INFILL_BUNDLED
    fill_slots_max: int = 2048
    packs_loaded_max: int = 8
    infill_models_loaded_max: int = 4


@dataclass(frozen=True)
class Stage:
    """A step of loading, shown to whoever waits."""

    name: str


@dataclass(frozen=True)
class Failed:
    """The worker ends without having become ready. `reason` is public."""

    reason: str


@dataclass(frozen=True)
class Ready:
    facts: dict[str, Any]


@dataclass(frozen=True)
class Batch:
    batch_id: int
    payloads: list[Any]

    @property
    def blocks(self) -> list[SharedBlock]:
        """The shared memory of its payloads, which follows the message."""
        return [block for payload in self.payloads if isinstance(payload, VectorTask) for block in payload.blocks]


@dataclass(frozen=True)
class Done:
    """`results` holds a result or a `GatewayError` for each payload."""

    batch_id: int
    results: list[Any]
    seconds: float
