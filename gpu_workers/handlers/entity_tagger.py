"""The tagger of a sanitise worker: which texts it reads, and how it fails.

If a request asks for names in a text, the text is read completely or becomes an error. A tagger that raises, or returns
numbers that are not finite, lets no text through.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from core.errors import RecogniserFailed
from core.text.mask_entity import Tagged
from core.text.policy import ENTITIES, MaskPolicy
from gpu_workers.engine.handler import CanaryMissed
from gpu_workers.facts import TaggerFacts
from gpu_workers.models.sources import TAGGER_BUNDLED
from gpu_workers.models.tagger import Entity, EntityTagger, embedded_tagger, pretrained_tagger

# Fictitious names. The accents are separate (combining) characters, as some systems write them.
CANARY = "😀 Yesterday Maria Ke\u0301ller flew from Lisbon to Norway. She works for Siemens in Munich."
CANARY_NAMES = {"PERSON": "Maria Ke\u0301ller", "LOCATION": "Lisbon", "ORGANIZATION": "Siemens"}


class NameFinder:
    """Finds the entities `types` of `core.text.policy.ENTITIES`. Give it visible text (`core.text.segment`)."""

    def __init__(self, source: str, *, device: str) -> None:
        """`source`: `bundled`, or the folder of a token classifier.

        Raises: ValueError for a folder that cannot be used, or a classifier that has none of the tagged entities.
        """
        self._bundled = source == TAGGER_BUNDLED
        self._tagger: EntityTagger = (
            embedded_tagger(device=device) if self._bundled else pretrained_tagger(Path(source), device=device)
        )
        self._device = device
        self.types = frozenset(kind for kind in self._tagger.types if kind in ENTITIES and ENTITIES[kind].tagged)
        if not self.types:
            raise ValueError("the tagger's labels name no person, location or organisation")

    def facts(self) -> TaggerFacts:
        return TaggerFacts(name=self._tagger.name, types=tuple(sorted(self.types)), device=self._device)

    def check(self) -> None:
        """Raises CanaryMissed if the bundled tagger misses planted names, or if any tagger skips letters."""
        found = self._tagger.tag([CANARY])[0]
        if not self._tagger.reads_all(CANARY) or not all(0 <= e.start < e.end <= len(CANARY) for e in found):
            raise CanaryMissed("the tagger skips letters of the canary or returns spans outside it")
        named = {(entity.type, CANARY[entity.start : entity.end]) for entity in found}
        if self._bundled and not CANARY_NAMES.items() <= named:
            raise CanaryMissed("the tagger missed names of the canary")

    def wanted(self, policy: MaskPolicy) -> bool:
        """Whether the policy requests a name entity, and not of patterns alone."""
        return not policy.patterns_only and not self.types.isdisjoint(policy.requested())

    def find(self, texts: Sequence[str]) -> list[Tagged | RecogniserFailed]:
        """Return the entities in each text. All texts are read together.

        If that fails, the texts are read one by one, so that one text does not fail the others.
        """
        return self.begin(texts)()

    def begin(
        self, texts: Sequence[str], between: Callable[[], object] = bool
    ) -> Callable[[], list[Tagged | RecogniserFailed]]:
        """Begin to read the texts beside the calling thread, where the tagger has threads of its own. Returns what
        waits for the result of `find`, and calls `between` between two batches. That may find other texts."""
        try:
            finish = self._tagger.begin(texts, between) if texts else list
        except Exception:  # its message and frames may hold the text
            return lambda: self._one_by_one(texts)

        def found() -> list[Tagged | RecogniserFailed]:
            try:
                return [*self._tagged(texts, finish())]
            except Exception:  # noqa: S110 - as above; the code below reports the failure
                pass
            return self._one_by_one(texts)

        return found

    def _one_by_one(self, texts: Sequence[str]) -> list[Tagged | RecogniserFailed]:
        if len(texts) == 1:
            return [RecogniserFailed()]
        return [answer for text in texts for answer in self.find([text])]

    def _tagged(self, texts: Sequence[str], found: Sequence[Sequence[Entity]]) -> list[Tagged]:
        return [
            Tagged(text, self.types, tuple((e.start, e.end, e.type, e.score) for e in own if e.type in self.types))
            for text, own in zip(texts, found, strict=True)
        ]
