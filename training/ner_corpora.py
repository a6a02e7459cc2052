"""Public entity corpora with common labels: words, and for each word PERSON, LOCATION, ORGANIZATION, none or ignored.

| corpus | language | PERSON | LOCATION | ORGANIZATION | ignored |
| --- | --- | --- | --- | --- | --- |
| wikigold | en | PER | LOC | ORG | |
| BTC | en | PER | LOC | ORG | user names after @, and #tags |
| WNUT17 | en | person | location | corporation, group | user names after @, and #tags |
| WNUT17 (test part) | en | person | location | corporation, group | |
| Tweebank-NER | en | PER | LOC | ORG | user names after @, and #tags |
| Universal NER: EWT (development and test part), PUD | en | PER | LOC | ORG | |
| Universal NER: Bosque, PUD | pt | PER | LOC | ORG | |
| Universal NER: PUD | de | PER | LOC | ORG | |
| GUM | en | person | place | organization | see below |
| GermEval 2014 (development and test part) | de | PER | LOC | ORG | compounds with a name (`LOCpart`) |
| KPWr n82 (test part) | pl | liv_person, liv_character | loc, fac | org | gods, animals, `org_nation` |
| Europeana newspapers | de, fr, nl | PER | LOC | ORG | |
| Universal Dependencies (development and test parts) | de, es, fr, it, nl, pt | | | | proper nouns, see below |
| Universal Dependencies: PUD | es, fr, it, pl | see below | see below | see below | other proper nouns |
| CoNLL-2003 (evaluation only) | en | PER | LOC | ORG | |

GUM marks every mention ("the poet"), not only names. Training uses capitalised words inside persons, places and
organisations as names; it ignores the other words of these mentions, and capitalised words inside other mentions.
Derived adjectives ("deutsche", `LOCderiv`), products and works count as no entity.

A treebank of Universal Dependencies has no entity labels. Words that are no proper noun count as no entity, proper
nouns and the words between two of them are ignored. Its sentences teach what is no name.

The sentences of PUD are the same in all languages. In those without labels, a proper noun has the label of the same
word, or of one with the same beginning ("Obamy"), in the English, German or Portuguese sentence.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from training.public_text import json_lines

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
_KPWR = (
    ("nam_liv_person", "PERSON"),
    ("nam_liv_character", "PERSON"),
    ("nam_liv", IGNORED),
    ("nam_loc", "LOCATION"),
    ("nam_fac", "LOCATION"),
    ("nam_org_nation", IGNORED),
    ("nam_org", "ORGANIZATION"),
)
_SEVERAL = re.compile(r"(\d+)-(\d+)")  # the number of a word that a treebank splits: "del" is "de" and "el"
_NO_SPACE_BEFORE = {".", ",", "!", "?", ";", ":", ")", "%", "'s", "n't", "'re", "'ve", "'ll", "'m", "'d", "’s"}
_NO_SPACE_AFTER = {"(", "$", "#", "@", "£"}
_CONTRACTIONS = {
    (first, second): (stem + second)
    for first, stem in (("de", "d"), ("em", "n"))
    for second in ("o", "a", "os", "as", "um", "uma", "ele", "ela", "este", "esta", "esse", "essa", "isso", "aquele")
}
_ALIKE_MIN, _ENDING_MAX = 4, 3  # letters that a name has in common with itself in another language or case, and others
PARALLEL = {"pud-es": "es", "pud-fr": "fr", "pud-it": "it", "pud-pl": "pl"}
_BETWEEN_MAX = 3  # words between two proper nouns that may be part of one name: "Ludwig van der Rohe"
_PAGE_WORDS = 12


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


def _germeval_labels(_words: Sequence[str], tags: Sequence[str]) -> list[str]:
    kinds = [tag.partition("-")[2] for tag in tags]
    return [IGNORED if kind.endswith("part") else _TYPES.get(kind, NONE) for kind in kinds]


def _kpwr_labels(_words: Sequence[str], tags: Sequence[str]) -> list[str]:
    kinds = [tag.partition("-")[2] for tag in tags]
    return [next((label for prefix, label in _KPWR if kind.startswith(prefix)), NONE) for kind in kinds]


def _treebank_labels(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    labels = [IGNORED if tag == "PROPN" else NONE for tag in tags]
    names = [number for number, label in enumerate(labels) if label == IGNORED]
    for before, after in pairwise(names):
        if after - before <= _BETWEEN_MAX + 1 and not any(w in {".", ";", ":"} for w in words[before + 1 : after]):
            labels[before:after] = [IGNORED] * (after - before)
    return labels


Sentence = tuple[list[str], list[str]]


def _json(path: Path) -> Iterator[Sentence]:
    for row in json_lines(path):
        yield row["tokens"], row["tags"]


def _columns(word: int, tag: int, comments: str) -> Callable[[Path], Iterator[Sentence]]:
    """Return a reader of files with a word a line, and an empty line or a comment after a sentence.

    `word`, `tag`: the columns. `comments`: how a line that is no word begins.
    """

    def read(path: Path) -> Iterator[Sentence]:
        words: list[str] = []
        tags: list[str] = []
        parts = 0  # rows that belong to the last word
        for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
            cells = line.split("\t") if "\t" in line else line.split()
            if line.startswith(comments) or len(cells) <= max(word, tag):
                if words and not line.startswith("# "):
                    yield words, tags
                    words, tags = [], []
            elif word and (several := _SEVERAL.fullmatch(cells[0])):
                parts = int(several[2]) - int(several[1]) + 1
                words.append(cells[word])
            elif parts:
                if len(tags) < len(words):
                    tags.append(cells[tag])
                parts -= 1
            else:
                words.append(cells[word])
                tags.append(cells[tag])

    return read


def _pages(path: Path) -> Iterator[Sentence]:
    """Newspaper pages without marked sentences, cut after a full stop."""
    for words, tags in _columns(0, 1, "\0")(path):
        start = 0
        for end in range(1, len(words) + 1):
            if end == len(words) or (words[end - 1] == "." and end - start >= _PAGE_WORDS):
                yield words[start:end], tags[start:end]
                start = end


_treebank = _columns(1, 3, "# ")
_annotated = _columns(1, 2, "# ")
_Reader = tuple[
    tuple[str, ...], Callable[[Path], Iterator[Sentence]], Callable[[Sequence[str], Sequence[str]], list[str]]
]


def _portuguese(path: Path) -> Iterator[Sentence]:
    """A treebank that writes "de a" for "da"."""
    for words, tags in _annotated(path):
        own: Sentence = ([], [])
        for word, tag in zip(words, tags, strict=True):
            joined = _CONTRACTIONS.get((own[0][-1].lower(), word)) if own[0] else None
            if joined:
                own[0][-1] = joined.capitalize() if own[0][-1][0].isupper() else joined
            else:
                own[0].append(word)
                own[1].append(tag)
        yield own


def _uner(*files: str) -> _Reader:
    return tuple(f"languages/uner_{file}.iob2" for file in files), _annotated, _labels


def _ud(*files: str) -> _Reader:
    return tuple(f"languages/ud_{file}.conllu" for file in files), _treebank, _treebank_labels


def _europeana(*files: str) -> _Reader:
    return tuple(f"languages/europeana_{file}.bio" for file in files), _pages, _labels


_READERS: dict[str, _Reader] = {
    "wikigold": (("ner/wikigold.jsonl.gz",), _json, _labels),
    "btc": (("ner/btc.jsonl.gz",), _json, _tweet_labels),
    "wnut17": (("ner/wnut17_train.jsonl.gz",), _json, _tweet_labels),
    "wnut17-test": (("languages/wnut17_test.conll",), _columns(0, 1, "\0"), _tweet_labels),
    "tweebank": (
        ("languages/tweebank_train.bio", "languages/tweebank_dev.bio", "languages/tweebank_test.bio"),
        _columns(0, 3, "-DOCSTART"),
        _tweet_labels,
    ),
    "uner-en": _uner("en_dev", "en_test", "en_pud"),
    "uner-pt": (
        tuple(f"languages/uner_pt_{part}.iob2" for part in ("train", "dev", "test", "pud")),
        _portuguese,
        _labels,
    ),
    "uner-de": _uner("de_pud"),
    "wnut17-dev": (("ner/wnut17_dev.jsonl.gz",), _json, _tweet_labels),
    "gum": (("ner/gum_train.jsonl.gz",), _json, _mention_labels),
    "conll-testa": (("ner/conll2003_testa.jsonl.gz",), _json, _labels),
    "germeval": (("languages/germeval_a.tsv", "languages/germeval_b.tsv"), _columns(1, 2, "#\t"), _germeval_labels),
    "kpwr": (("languages/kpwr.iob",), _columns(0, 3, "-DOCSTART"), _kpwr_labels),
    "europeana-de": _europeana("DE.lft", "DE.onb", "DE.sbb"),
    "europeana-fr": _europeana("FR.bnf"),
    "europeana-nl": _europeana("NL.kb"),
    "ud-de": _ud("de_dev", "de_test"),
    "ud-es": _ud("es_dev", "es_test"),
    "ud-fr": _ud("fr_dev", "fr_test"),
    "ud-it": _ud("it_train", "it_dev", "it_test"),
    "ud-nl": _ud("nl_dev", "nl_test", "nl2_dev", "nl2_test"),
    "ud-pt": _ud("pt_dev", "pt_test"),
}


def _parallel(data: Path, language: str) -> Iterator[Tagged]:
    """Yield the sentences of a treebank of PUD, with labels from the languages that have some."""
    labelled = [[*_annotated(data / f"languages/uner_{code}_pud.iob2")] for code in ("en", "de", "pt")]
    own = [*_treebank(data / f"languages/ud_{language}_pud.conllu")]
    for (words, tags), *others in zip(own, *labelled, strict=True):
        names = {
            word: label
            for other_words, other_tags in others
            for word, label in zip(other_words, _labels(other_words, other_tags), strict=True)
            if label != NONE and word[:1].isupper()
        }
        labels = [
            _label_of(word, names) if label == IGNORED and word[:1].isupper() else label
            for word, label in zip(words, _treebank_labels(words, tags), strict=True)
        ]
        yield Tagged(tuple(words), tuple(labels))


def _label_of(word: str, names: dict[str, str]) -> str:
    if word in names:
        return names[word]
    stem = word[: max(_ALIKE_MIN, len(word) - _ENDING_MAX)]
    alike = [label for name, label in names.items() if len(word) >= _ALIKE_MIN and name.startswith(stem)]
    return alike[0] if alike else IGNORED


def read(data: Path, corpus: str) -> list[Tagged]:
    """Return the sentences of a corpus, in the order of its files."""
    if corpus in PARALLEL:
        return [*_parallel(data, PARALLEL[corpus])]
    files, sentences_of, labels_of = _READERS[corpus]
    return [
        Tagged(tuple(words), tuple(labels_of(words, tags)))
        for file in files
        for words, tags in sentences_of(data / file)
    ]


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
