"""The rule of the Text Anonymization Benchmark (Pilán et al. 2022) on its court cases.

An annotator of a case marked the mentions of each entity, and whether the entity is a direct or a quasi identifier of
the person to protect. An entity is hidden if each of its mentions that needs a mask is covered. Punctuation, spaces,
titles, adpositions, particles, conjunctions and determiners need no cover. All annotators count alike (micro average).
Token precision: of the words under masks, the share that the annotators masked as well.

**The texts are for evaluation alone. Read the figures, and not the examples, when you change the recognisers.** What is
missed in the cases of even index was read for the profile `anonymise`, so that its figures have a column for the cases
of odd index.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kit import head, row
from benchmarks.sanitising.finders import Find, finds_of, theirs
from core.text.policy import PROFILES

POLICIES = {name: PROFILES[name] for name in ("default", "hipaa", "anonymise")}
PARTS = ("all", "even", "odd")
LEFT_OUT = frozenset(" ,.-;:/&()[]–'\" ’“”")


def parts_of(index: int) -> tuple[str, str]:
    """Return the parts of a file to which the document of this index belongs."""
    return "all", ("even", "odd")[index % 2]


class Mention(NamedTuple):
    start: int
    end: int
    needs_mask: bool


@dataclass(frozen=True)
class Entity:
    type: str
    direct: bool
    mentions: list[Mention] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """A text, and the entities of each annotator."""

    text: str
    annotators: list[list[Entity]]


def cases(path: Path) -> Iterator[Case]:
    """Yield the cases of `echr_test.json`, or of a file of JSON lines with one annotator a line."""
    if path.suffix == ".jsonl":
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            yield Case(found["text"], [_entities(found["entities"])])
    else:
        for found in json.loads(path.read_text(encoding="utf-8")):
            marked = [each["entity_mentions"] for each in found["annotations"].values()]
            yield Case(found["text"], [_entities(mentions) for mentions in marked if mentions])


def _entities(mentions: Sequence[dict[str, Any]]) -> list[Entity]:
    """The first mention of an entity says whether it is a direct identifier."""
    entities: dict[str, Entity] = {}
    for each in mentions:
        kind = each["identifier_type"]
        entity = entities.setdefault(each["entity_id"], Entity(each["entity_type"], kind == "DIRECT"))
        entity.mentions.append(Mention(each["start_offset"], each["end_offset"], kind != "NO_MASK"))
    return [entity for entity in entities.values() if any(mention.needs_mask for mention in entity.mentions)]


@dataclass
class Figures:
    """Counts by (direct or quasi, type of entity), and of words under masks."""

    entities: Counter[tuple[str, str]] = field(default_factory=Counter)
    hidden: Counter[tuple[str, str]] = field(default_factory=Counter)
    words: int = 0
    words_right: int = 0

    def recall(self, identifier: str) -> float:
        keys = [key for key in self.entities if key[0] == identifier]
        return sum(self.hidden[key] for key in keys) / max(1, sum(self.entities[key] for key in keys))

    def add(self, case: Case, finds: Sequence[Find], function_words: Sequence[Find]) -> None:
        masked = {place for find in finds for place in range(find.start, find.end)}
        covered = masked | {place for word in function_words for place in range(word.start, word.end)}
        covered |= {place for place, character in enumerate(case.text) if character in LEFT_OUT}
        for entity in (entity for entities in case.annotators for entity in entities):
            key = "direct" if entity.direct else "quasi", entity.type
            needed = (range(start, end) for start, end, needs_mask in entity.mentions if needs_mask)
            self.entities[key] += 1
            self.hidden[key] += all(covered.issuperset(places) for places in needed)
        self._count_words(case, masked)

    def _count_words(self, case: Case, masked: set[int]) -> None:
        shown = "".join(character if place in masked else " " for place, character in enumerate(case.text))
        wanted = [
            [mention for entity in entities for mention in entity.mentions if mention.needs_mask]
            for entities in case.annotators
        ]
        for word in re.finditer(r"\w+", shown):
            self.words += len(wanted)
            self.words_right += sum(
                any(start <= word.start() and word.end() <= end for start, end, _ in mentions) for mentions in wanted
            )


def report(path: Path, *, peers: bool) -> None:
    """Print the figures of a file, for the gateway with its profiles and for the peers: those of all cases, and of the
    cases of even and of odd index."""
    read = list(cases(path))
    texts = [case.text for case in read]
    function_words = theirs("function_words", texts)
    by_finder: dict[str, dict[str, Figures]] = {}
    for name, found in finds_of(texts, POLICIES, peers=peers).items():
        by_finder[name] = {part: Figures() for part in PARTS}
        for index, (case, finds, words) in enumerate(zip(read, found, function_words, strict=True)):
            for part in parts_of(index):
                by_finder[name][part].add(case, finds, words)
    print(f"\n{path.name}: {len(read)} cases\n")
    head("finder", "cases", "direct identifiers", "quasi identifiers", "token precision")
    for name, part in product(by_finder, PARTS):
        each = by_finder[name][part]
        precision = each.words_right / max(1, each.words)
        row(name, part, *(f"{figure:.3f}" for figure in (each.recall("direct"), each.recall("quasi"), precision)))
    for part in PARTS:
        print(f"\n{part} cases\n")
        head("identifier", "type", "entities", *by_finder)
        figures = {name: found[part] for name, found in by_finder.items()}
        for key, count in sorted(next(iter(figures.values())).entities.items()):
            row(*key, count, *(f"{each.hidden[key] / count:.3f}" for each in figures.values()))
