"""What is counted: originals in what the upstream saw, and surrogates in answers that came back."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

from benchmarks.conversations.recorded import Conversation, Original
from core.text.reversible.mapping import Pair

_PART_CHARS_MIN = 3


@dataclass
class Figures:
    """`leaked`: originals that the recogniser found and that the upstream saw nevertheless. `missed`: originals that it
    did not find, or of which it left a part, and that the upstream saw. `wrong`: restored to something else.
    """

    conversations: int = 0
    requests: int = 0
    originals: int = 0
    leaked: list[tuple[str, str, str]] = field(default_factory=list)
    missed: list[tuple[str, str, str]] = field(default_factory=list)
    probes: Counter[str] = field(default_factory=Counter)
    restored: Counter[str] = field(default_factory=Counter)
    left: list[tuple[str, str, str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str, str, str]] = field(default_factory=list)

    def see(self, conversation: Conversation, body: Any, pairs: Iterable[Pair]) -> None:
        """Count the originals in a masked request, once for each conversation."""
        seen = "\n".join(variant for text in strings(body) for variant in writings(text))
        found = [pair.original for pair in pairs]
        words = {word for original in found for word in _words(original)}
        for original in conversation.originals:
            self.originals += 1
            known = set(_words(original.value)) <= words
            standing = [part for part in _parts(original) if _stands(part, seen)]
            if not standing:
                continue
            place = (conversation.name, original.type, standing[0])
            (self.leaked if known else self.missed).append(place)
        for value in found:
            if _stands(value, seen) and (conversation.name, "found", value) not in self.leaked:
                self.leaked.append((conversation.name, "found", value))

    @property
    def share(self) -> float:
        return self.restored.total() / max(1, self.probes.total())


def strings(value: Any) -> Iterator[str]:
    """Yield every string of a JSON value, also its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def writings(text: str) -> list[str]:
    """Return a text as it is, and as it reads without each of its encodings."""
    found = [text, unquote(text), unquote_plus(text), html.unescape(text), unicodedata.normalize("NFKC", text)]
    found.append(re.sub(r"\\[nrt]", " ", text))
    found.append(re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text))
    try:
        inner = json.loads(text)
    except ValueError:
        return found
    return found if isinstance(inner, str) else found + list(strings(inner))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _parts(original: Original) -> list[str]:
    """Return an original, and the parts of a name that must not stand alone either."""
    if original.type != "PERSON":
        return [original.value]
    words = [word for word in original.value.split() if len(word) >= _PART_CHARS_MIN and word[0].isupper()]
    joined = [mark.join(original.value.lower().split()) for mark in " -_."]
    return [original.value, *words, *(word.upper() for word in words), *joined]


def _stands(value: str, seen: str) -> bool:
    """Whether a value stands in a text, not as a part of a word."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", seen) is not None
