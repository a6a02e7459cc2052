"""Access to the facts that the engine's workers report."""

from typing import TypeVar

from core.errors import WorkerCold
from gpu_workers.engine.protocol import NOT_SERVED, Role
from gpu_workers.engine.task_queue import Engine
from gpu_workers.facts import EmbedderFacts, InfillFacts, SanitiserFacts

Facts = TypeVar("Facts", EmbedderFacts, SanitiserFacts)


class Workers:
    """Reads the facts of an engine's roles. A property raises WorkerCold until a worker of its role was ready, also
    where the engine does not have the role, unless its docstring says what it returns then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def embedder(self) -> EmbedderFacts:
        return self._facts(Role.EMBED, EmbedderFacts)

    def loaded_domains(self) -> frozenset[str] | None:
        """The installed domains that the embed workers have loaded; None until one of them was ready."""
        try:
            return frozenset(self.embedder.domains)
        except WorkerCold:
            return None

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
        tagger = self._facts(Role.SANITIZE, SanitiserFacts).tagger
        return tagger.types if tagger else ()

    @property
    def infill(self) -> InfillFacts | None:
        """The language model of the fill workers; None where the engine has no such workers."""
        return self._facts(Role.FILL, SanitiserFacts).infill if Role.FILL in self._engine.roles else None

    def _facts(self, role: Role, kind: type[Facts]) -> Facts:
        if role not in self._engine.roles:
            raise WorkerCold(NOT_SERVED)
        facts = self._engine.status(role).facts
        if not isinstance(facts, kind):
            raise WorkerCold
        return facts
