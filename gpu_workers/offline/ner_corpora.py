"""Public entity corpora with common labels: text, and spans of PERSON, LOCATION and ORGANIZATION.

| corpus | PERSON | LOCATION | ORGANIZATION | excluded from training |
| --- | --- | --- | --- | --- |
| wikigold | PER | LOC | ORG | |
| BTC | PER | LOC | ORG | user names after @, and #tags |
| WNUT17 | person | location | corporation, group | user names after @, and #tags |
| GUM | person | place | organization | see below |
| CoNLL-2003 (evaluation only) | PER | LOC | ORG | |

GUM marks every mention ("the poet"), not only names. Training uses capitalised words inside persons, places and
organisations as names; it ignores the other words of these mentions, and capitalised words inside other mentions.
Products and works count as no entity.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_workers.domains.public_text import json_lines

IGNORED = "?"  # a label that training ignores
NONE = "O"

_TYPES = {
    "PER": "PERSON",
    "person": "PERSON",
    "LOC": "LOCATION",
    "location": "LOCATION",
    "place": "LOCATION",
    "ORG": "ORGANIZATION",
    "corporation": "ORGANIZATION",
    "group": "ORGANIZATION",
    "organization": "ORGANIZATION",
}
_NO_SPACE_BEFORE = {".", ",", "!", "?", ";", ":", ")", "%", "'s", "n't", "'re", "'ve", "'ll", "'m", "'d", "’s"}
_NO_SPACE_AFTER = {"(", "$", "#", "@", "£"}


@dataclass(frozen=True)
class Tagged:
    """The words of one sentence and the label of each: a type, `NONE` or `IGNORED`."""

    words: tuple[str, ...]
    labels: tuple[str, ...]


def _labels(_words: Sequence[str], tags: Sequence[str]) -> list[str]:
    return [_TYPES.get(tag.partition("-")[2], NONE) for tag in tags]


def _tweet_labels(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    labels = _labels(words, tags)
    for number, word in enumerate(words):
        if word.startswith(("@", "#")) or (number and words[number - 1] == "@"):
            labels[number] = IGNORED
    return labels


def _mention_labels(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    labels = []
    for number, (word, tag) in enumerate(zip(words, tags, strict=True)):
        capitalised = word[:1].isupper() and word != "I" and number > 0
        kind = _TYPES.get(tag.partition("-")[2])
        if kind:
            labels.append(kind if capitalised else IGNORED)
        else:
            labels.append(IGNORED if tag != NONE and capitalised else NONE)
    return labels


_READERS: dict[str, tuple[str, Callable[[Sequence[str], Sequence[str]], list[str]]]] = {
    "wikigold": ("wikigold", _labels),
    "btc": ("btc", _tweet_labels),
    "wnut17": ("wnut17_train", _tweet_labels),
    "wnut17-dev": ("wnut17_dev", _tweet_labels),
    "gum": ("gum_train", _mention_labels),
    "conll-testa": ("conll2003_testa", _labels),
}


def read(data: Path, corpus: str) -> list[Tagged]:
    """Return the sentences of a corpus, in the order of the file."""
    file, labels_of = _READERS[corpus]
    sentences = []
    for row in json_lines(data / "ner" / f"{file}.jsonl.gz"):
        words, tags = row["tokens"], row["tags"]
        sentences.append(Tagged(tuple(words), tuple(labels_of(words, tags))))
    return sentences


def runs(sentence: Tagged) -> list[tuple[int, int, str]]:
    """(first word, word after the last, label) of every run of one label, including the label of no entity."""
    found: list[tuple[int, int, str]] = []
    for number, label in enumerate(sentence.labels):
        if found and found[-1][2] == label:
            found[-1] = (found[-1][0], number + 1, label)
        else:
            found.append((number, number + 1, label))
    return found


def written(sentence: Tagged, natural: bool) -> tuple[str, list[tuple[int, int, str]]]:
    """Return the text, and (start, end, label) of each word. `natural`: with the spaces that a writer would set."""
    text, spans, previous = "", [], ""
    for word, label in zip(sentence.words, sentence.labels, strict=True):
        if text and not (natural and (word in _NO_SPACE_BEFORE or previous in _NO_SPACE_AFTER)):
            text += " "
        spans.append((len(text), len(text) + len(word), label))
        text += word
        previous = word
    return text, spans


def swapped(sentence: Tagged, share: float, name_of: Callable[[str, random.Random], str], rng: random.Random) -> Tagged:
    """Replace a share of the names by others of their type."""
    words: list[str] = []
    labels: list[str] = []
    for first, after, label in runs(sentence):
        own = sentence.words[first:after]
        if label not in (NONE, IGNORED) and rng.random() < share:
            own = tuple(name_of(label, rng).split()) or own
        words += own
        labels += [label] * len(own)
    return Tagged(tuple(words), tuple(labels))
