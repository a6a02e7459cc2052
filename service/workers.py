"""Access to the facts that the engine's workers report."""

from __future__ import annotations

from core.errors import WorkerCold
from gpu_workers.engine.protocol import Engine, Role
from gpu_workers.facts import EmbedderFacts, InfillFacts, SanitiserFacts


class Workers:
    """Reads the facts of an engine's roles. A property raises WorkerCold until a worker of its role was ready,
    unless its docstring says what it returns then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def embedder(self) -> EmbedderFacts:
        facts = self._engine.status(Role.EMBED).facts
        if not isinstance(facts, EmbedderFacts):
            raise WorkerCold
        return facts

    @property
    def loaded_domains(self) -> frozenset[str] | None:
        """The installed domains that the embed workers have loaded; None until one of them was ready."""
        facts = self._engine.status(Role.EMBED).facts
        return frozenset(facts.domains) if isinstance(facts, EmbedderFacts) else None

    @property
    def encoder_name(self) -> str:
        return self.embedder.encoder.name

    @property
    def encoder_fingerprint(self) -> str:
        return self.embedder.encoder.fingerprint

    @property
    def packs_of(self) -> str:
        """The fingerprint of the encoder whose packs serve text."""
        return self.embedder.encoder.packs_of or self.encoder_fingerprint

    @property
    def tagger_types(self) -> tuple[str, ...]:
        """The entities that the tagger of the sanitise workers finds; none without a tagger."""
        tagger = self._sanitiser(Role.SANITIZE).tagger
        return tagger.types if tagger else ()

    @property
    def infill(self) -> InfillFacts | None:
        """The language model of the fill workers; None where the engine has no such workers."""
        return self._sanitiser(Role.FILL).infill if Role.FILL in self._engine.roles else None

    def _sanitiser(self, role: Role) -> SanitiserFacts:
        facts = self._engine.status(role).facts
        if not isinstance(facts, SanitiserFacts):
            raise WorkerCold
        return facts
