"""What the tagger and the infill learn from: labels under one scheme, names where their spans say."""

import gzip
import json
import random
import re
from pathlib import Path

import pytest

from training import ner_corpora
from training.names import Names
from training.ner_corpora import IGNORED
from training.slots import Language
from training.tagger_batches import LABELS, TEXTS

SENTENCE = {"tokens": ["Anna", "Berg", "left", "Oslo", "."], "tags": ["I-PER", "I-PER", "O", "I-LOC", "O"]}
TWEET = {"tokens": ["@", "anna", "met", "#Oslo", "Bob"], "tags": ["B-PER", "I-PER", "O", "O", "B-PER"]}
MENTION = {
    "tokens": ["The", "poet", "Anna", "Berg", "saw", "the", "Sun", "and", "Peru"],
    "tags": ["B-person", "I-person", "I-person", "I-person", "O", "B-object", "I-object", "O", "B-place"],
}


def write(path: Path, *rows: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path / "ner/wikigold.jsonl.gz", SENTENCE)
    write(tmp_path / "ner/btc.jsonl.gz", TWEET)
    write(tmp_path / "ner/wnut17_train.jsonl.gz", {**SENTENCE, "tags": ["B-person", "I-person", "O", "B-group", "O"]})
    write(tmp_path / "ner/gum_train.jsonl.gz", MENTION)
    return tmp_path


@pytest.fixture(scope="module")
def names() -> Names:
    return Names(1, 10)


def test_corpora_come_under_one_scheme(data: Path) -> None:
    labels = {name: ner_corpora.read(data, name)[0].labels for name in ("wikigold", "btc", "wnut17", "gum")}
    assert labels["wikigold"] == ("PERSON", "PERSON", "O", "LOCATION", "O")
    assert labels["btc"] == ("?", "?", "O", "?", "PERSON")
    assert labels["wnut17"] == ("PERSON", "PERSON", "O", "ORGANIZATION", "O")
    assert labels["gum"] == ("?", "?", "PERSON", "PERSON", "O", "O", "?", "O", "LOCATION")


def test_swapping_keeps_words_and_labels_together(data: Path) -> None:
    sentence = ner_corpora.read(data, "wikigold")[0]
    swapped = ner_corpora.swapped(sentence, 1.0, lambda kind, rng: f"new {kind.lower()}", random.Random(1))
    assert swapped.words == ("new", "person", "left", "new", "location", ".")
    assert swapped.labels == ("PERSON", "PERSON", "O", "LOCATION", "LOCATION", "O")
    assert ner_corpora.written(swapped, natural=True)[0] == "new person left new location."


@pytest.mark.slow("training")
@pytest.mark.parametrize("name", TEXTS)
def test_every_text_is_filled_and_its_names_are_marked(name: str, names: Names) -> None:
    language, rng = Language.of(name, names, 1), random.Random(2)
    for template in language.file.templates:
        text, spans = language.fill(template, rng)
        assert not re.search(r"\{[a-z_.]+\}", text)
        assert all(text[start:end].strip() for start, end, _ in spans)
        assert {kind for _, _, kind in spans} <= {*LABELS[1:], IGNORED}
    for plain in language.file.plain:
        kinds = {kind for _, _, kind in language.fill(plain, rng)[1]}
        assert not kinds & {"PASSWORD", "SECRET"}
        assert "-" in name or kinds <= {IGNORED}  # the plain texts of logins name people


def write_columns(path: Path, *rows: tuple[str, str, str]) -> None:
    """Write one sentence. A row: the number of a word, the word and its tag."""
    path.parent.mkdir(exist_ok=True)
    lines = ["# text = a sentence", *("\t".join(row) for row in rows), ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def numbered(text: str) -> list[tuple[str, str, str]]:
    """`word/tag word/tag ...` as rows."""
    return [(str(number), *item.split("/")) for number, item in enumerate(text.split(), 1)]  # type: ignore[misc]


def test_a_word_that_a_treebank_splits_is_read_as_it_is_written(data: Path) -> None:
    rows = [("1-2", "Zum", "_\t_"), *((i, word, f"_\t{tag}") for i, word, tag in numbered("Zu/A dem/D Arzt/N"))]
    for part in ("dev", "test"):
        write_columns(data / f"languages/ud_de_{part}.conllu", *rows)
    for part in ("train", "dev", "test", "pud"):
        write_columns(
            data / f"languages/uner_pt_{part}.iob2", *numbered("Em/O a/O casa/O de/O o/O Rui/B-PER em/O o/O mar/O")
        )
    assert ner_corpora.read(data, "ud-de")[0].words == ("Zum", "Arzt")
    portuguese = ner_corpora.read(data, "uner-pt")[0]
    assert portuguese.words == ("Na", "casa", "do", "Rui", "no", "mar")
    assert portuguese.labels == ("O", "O", "O", "PERSON", "O", "O")


def test_a_name_has_its_label_in_the_same_sentence_of_another_language(data: Path) -> None:
    for code in ("en", "de", "pt"):
        write_columns(data / f"languages/uner_{code}_pud.iob2", *numbered("Obama/B-PER left/O Warsaw/B-LOC"))
    rows = [(i, word, f"_\t{tag}") for i, word, tag in numbered("Samolot/N Obamy/PROPN odleciał/V ./. Warszawę/PROPN")]
    write_columns(data / "languages/ud_pl_pud.conllu", *rows)
    assert ner_corpora.read(data, "pud-pl")[0].labels == ("O", "PERSON", "O", "O", "?")
