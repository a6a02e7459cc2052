"""What the engine's workers report of themselves, as the capabilities ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import WorkerCold
from gpu_workers.engine import Engine, Role

Facts = Mapping[str, Any]


class Workers:
    """Reads the facts of an engine's roles. Each method raises WorkerCold until a worker of its role was ready."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def embedder(self) -> Facts:
        """What the embed workers report."""
        facts = self._engine.status(Role.EMBED).facts
        if "encoder" not in facts:
            raise WorkerCold
        return facts

    @property
    def encoder_name(self) -> str:
        return str(self.embedder["encoder"]["name"])

    @property
    def encoder_fingerprint(self) -> str:
        return str(self.embedder["encoder"]["fingerprint"])

    @property
    def tagger_types(self) -> tuple[str, ...]:
        """The entities that the tagger of the sanitise workers finds; none without a tagger."""
        facts = self._engine.status(Role.SANITIZE).facts
        if "tagger" not in facts:
            raise WorkerCold
        return tuple(facts["tagger"]["types"]) if facts["tagger"] else ()

    @property
    def infill(self) -> Facts | None:
        """The language model of the fill workers; None where the engine has no such workers."""
        if Role.FILL not in self._engine.roles:
            return None
        facts = self._engine.status(Role.FILL).facts
        if "infill" not in facts:
            raise WorkerCold
        found: Facts = facts["infill"]
        return found
