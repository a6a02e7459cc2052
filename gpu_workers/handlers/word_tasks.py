"""The pieces of a document with many words to draw by `metric_dp`.

The document's first step masks it and lists the words to draw, in parts. Each part is drawn by a task of its own. The
last step masks the document again, from the same finds, and puts the drawn words in their places; it draws nothing.

The released distribution is that of the undivided document: each word has its own draw, which is independent of all
others given the word (`core.mechanisms.words`), and each draw is made in one part. Equal words are in the same part,
where they share work but not their draws; their draws are identically distributed, so any of them may take any place.

Parts and draws are bytes, so that the front end passes them on without reading them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from core.mechanisms.words.laplace import WordMechanism
from core.text.policy import Sanitised
from core.text.recognised import WindowFinds
from core.text.replace_words import put, words_of
from core.text.sanitize import Inspected

_DRAWS_PER_WORD = 8  # a further draw of a word is several times as fast as the first, for either mechanism


@dataclass(frozen=True)
class WordsToDraw:
    """The words of a document, in parts, and what recognisers found in the document's windows."""

    parts: tuple[bytes, ...] = field(repr=False)
    finds: tuple[WindowFinds, ...] = field(repr=False)


@dataclass(frozen=True)
class WordTask:
    """One of the parts. Its result is the drawn words, as bytes. Units: epsilon in nano, per unit of distance."""

    part: bytes = field(repr=False)
    mechanism: str
    epsilon_nano: int

    def draw(self, mechanisms: Mapping[str, WordMechanism]) -> bytes:
        """Return a draw for each word of the part."""
        words = _words(self.part)
        return _packed(mechanisms[self.mechanism].release(words, [self.epsilon_nano] * len(words)))


def parts_of(found: Inspected, words_max: int) -> tuple[bytes, ...]:
    """Return the words to draw in parts of at most `words_max` different words, and some more equal ones."""
    parts: list[list[tuple[str, int]]] = [[]]
    draws = 0
    for word, count in Counter(word for region in words_of(found) for word in region).items():
        left = count
        while left:
            if len(parts[-1]) == words_max or draws == words_max * _DRAWS_PER_WORD:
                parts.append([])
                draws = 0
            own = min(left, words_max * _DRAWS_PER_WORD - draws)
            parts[-1].append((word, own))
            draws, left = draws + own, left - own
    return tuple(_packed(part) for part in parts)


def put_drawn(found: Inspected, drawn: Sequence[tuple[bytes, bytes]]) -> Sanitised:
    """Return the document with the words that were drawn for each of its parts. Raises an error if they do not fit."""
    own: dict[str, list[str]] = defaultdict(list)
    for part, words in drawn:
        for word, new in zip(_words(part), json.loads(words), strict=True):
            own[word].append(new)

    def in_order() -> Iterator[str]:
        for region in words_of(found):
            for word in region:
                yield own[word].pop()

    return put(found, in_order())


def _packed(value: object) -> bytes:
    return json.dumps(value).encode()


def _words(part: bytes) -> list[str]:
    return [word for word, count in json.loads(part) for _ in range(count)]
