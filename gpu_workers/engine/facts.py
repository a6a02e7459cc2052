"""The facts of an engine's workers, as the front end reads them."""

from __future__ import annotations

from core.errors import WorkerCold
from gpu_workers.engine.protocol import Engine, Role
from gpu_workers.facts import EmbedderFacts, SanitiserFacts


def embedder_facts(engine: Engine) -> EmbedderFacts:
    """Raises WorkerCold until an embed worker has been ready."""
    facts = engine.status(Role.EMBED).facts
    if not isinstance(facts, EmbedderFacts):
        raise WorkerCold
    return facts


def sanitiser_facts(engine: Engine, role: Role) -> SanitiserFacts:
    """Raises WorkerCold until a worker of that role has been ready."""
    facts = engine.status(role).facts
    if not isinstance(facts, SanitiserFacts):
        raise WorkerCold
    return facts
