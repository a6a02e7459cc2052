"""The public text: sentences to adapt to, sentences to test on, and what the language model is pretrained on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from core.text.segment import sentences
from training.infill_texts import wikitext
from training.public_text import json_lines

_WORDS_MIN, _WORDS_MAX = 4, 40
_HELD_OUT = 1 / 3  # of all sentences
_QUOTED = re.compile(r"^\W|@|wrote:|writes:")  # lines of a post that are somebody else's, or no running text


@dataclass(frozen=True)
class Corpus:
    """`adapt` is what gets masked and filled, `test` stays as it is. No document is in both."""

    name: str
    adapt: list[str]
    test: list[str]


def _imdb(data: Path) -> Iterator[str]:
    for row in json_lines(data / "imdb" / "test.jsonl.gz"):
        yield str(row["text"]).replace("<br />", " ")


# the shipped infill was trained on neither
_DOCUMENTS: dict[str, Callable[[Path], Iterable[str]]] = {
    "IMDB": _imdb,
    "WikiText-2": lambda data: wikitext(data, "test"),
}
NAMES = tuple(_DOCUMENTS)


def corpus(name: str, data: Path, count: int) -> Corpus:
    """The corpus' first `count` sentences to adapt to, or two thirds of what there is; the test takes half as many
    from the documents that follow."""
    documents = [kept for text in _DOCUMENTS[name](data) if (kept := _kept(text))]
    count = min(count, int(sum(map(len, documents)) * (1 - _HELD_OUT)))
    place, adapt = 0, list[str]()
    while len(adapt) < count:
        adapt += documents[place]
        place += 1
    test = list(islice(chain.from_iterable(documents[place:]), count // 2))
    return Corpus(name, adapt[:count], test)


def _kept(text: str) -> list[str]:
    """Sentences of a usual length; a word that the corpus itself had removed would be neither masked nor kept."""
    return [
        sentence
        for sentence in sentences(text)
        if _WORDS_MIN <= len(sentence.split()) <= _WORDS_MAX and "[UNK]" not in sentence
    ]


def pretraining(data: Path) -> list[str]:
    """Sentences of MNLI, QNLI and QQP (speech, fiction, Wikipedia, the web), of restaurants' reviews (Yelp) and of
    20 Newsgroups. No film review is in it, and no article of WikiText."""
    texts = []
    for name in ("mnli", "qnli", "qqp"):
        for row in json_lines(data / "glue" / f"{name}_train.jsonl.gz"):
            texts += [str(value) for key, value in row.items() if key not in ("label", "idx")]
    reviews = (str(row["text"]) for row in json_lines(data / "lm" / "yelp_sentences.jsonl.gz"))
    texts += [text for text in reviews if "_num_" not in text and len(text.split()) >= _WORDS_MIN]
    for row in json_lines(data / "20news" / "train.jsonl.gz"):
        texts += _kept(" ".join(line for line in str(row["text"]).splitlines() if not _QUOTED.search(line)))
    return list(dict.fromkeys(texts))
