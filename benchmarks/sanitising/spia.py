"""The attributes of each person in the texts of SPIA (court cases, and posts of PANORAMA), masked by `anonymise`.

Annotators listed the attributes of each person of a text, as a type and a keyword. Many keywords are conclusions and
stand nowhere in the text. Gone: of the keywords of a person that stand in the text as whole words in any case, the
share of which no occurrence is left after masking; the mean over persons. Harmless words: of those outside all keywords
of the text, and outside all spans that the Text Anonymization Benchmark marks in the same case, the share under masks.

**The texts are for evaluation alone.** What is left of the texts of even index was read, and of odd index nothing. The
index of a court case is that of the Text Anonymization Benchmark's file, where DATA holds it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.kit import head, row
from benchmarks.sanitising.finders import Find, finds_of
from benchmarks.sanitising.tab import PARTS, parts_of
from core.text.policy import PROFILES

POLICY = "anonymise"


@dataclass
class Figures:
    """Counts of attributes by type, the share of each person, and words outside all marks."""

    stood: Counter[str] = field(default_factory=Counter)
    gone: Counter[str] = field(default_factory=Counter)
    persons: list[float] = field(default_factory=list)
    words: int = 0
    words_masked: int = 0

    def add(self, document: Mapping[str, Any], finds: Sequence[Find], marked: set[int]) -> None:
        text, masked = document["text"], {place for find in finds for place in range(find.start, find.end)}
        shown = "".join("\0" if place in masked else character for place, character in enumerate(text))
        for person in document["subjects"]:
            stood = [each for each in person["PIIs"] if each["keyword"] and _places(each["keyword"], text)]
            gone = [each for each in stood if not _places(each["keyword"], shown)]
            for each in stood:
                marked = marked.union(*(range(*place) for place in _places(each["keyword"], text)))
            self.stood.update(each["tag"] for each in stood)
            self.gone.update(each["tag"] for each in gone)
            self.persons += [len(gone) / len(stood)] if stood else []
        words = [word.start() for word in re.finditer(r"\w+", text) if word.start() not in marked]
        self.words += len(words)
        self.words_masked += sum(start in masked for start in words)


def _places(keyword: str, text: str) -> list[tuple[int, int]]:
    pattern = rf"(?<!\w){re.escape(keyword)}(?!\w)"
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def _of_lines(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def report(path: Path, cases: Sequence[Path]) -> None:
    """Print the figures of a file. `cases`: files of JSON lines of the Text Anonymization Benchmark."""
    documents = list(_of_lines(path))
    marks = {each["text"]: (index, each["entities"]) for file in cases for index, each in enumerate(_of_lines(file))}
    found = finds_of([each["text"] for each in documents], {POLICY: PROFILES[POLICY]}, peers=False)[POLICY]
    figures = {part: Figures() for part in PARTS}
    for place, (document, finds) in enumerate(zip(documents, found, strict=True)):
        index, spans = marks.get(document["text"], (place, ()))
        marked = {at for span in spans for at in range(span["start_offset"], span["end_offset"])}
        for part in parts_of(index):
            figures[part].add(document, finds, marked)
    print(f"\n{path.name}: {len(documents)} texts\n")
    head("texts", "persons", "attributes gone, per person", "harmless words masked")
    for part, each in figures.items():
        gone = sum(each.persons) / max(1, len(each.persons))
        row(part, len(each.persons), f"{gone:.3f}", f"{each.words_masked / max(1, each.words):.3f}")
    print()
    head("attribute", *PARTS)
    for tag in sorted(figures["all"].stood):
        row(tag, *(f"{each.gone[tag]} of {each.stood[tag]}" for each in figures.values()))
