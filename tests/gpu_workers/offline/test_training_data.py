"""What the tagger and the infill learn from: labels under one scheme, names where their spans say."""

import gzip
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_workers.offline import ner_corpora, tagger_batches
from gpu_workers.offline.infill_batches import HELD_OUT, held_out, public_batches
from gpu_workers.offline.names import Names
from gpu_workers.offline.ner_corpora import IGNORED
from gpu_workers.offline.slots import Language
from gpu_workers.offline.tagger_batches import CORPORA, LABELS, MASK, TEXTS, Batches
from gpu_workers.offline.text_files import form

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


@pytest.fixture
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of the English corpora and texts alone."""
    monkeypatch.setattr(
        tagger_batches, "CORPORA", {name: CORPORA[name] for name in ("wikigold", "btc", "wnut17", "gum")}
    )
    monkeypatch.setattr(tagger_batches, "TEXTS", {"en": 0.5})


@pytest.fixture(scope="module")
def names() -> Names:
    return Names(1, 60)


def test_corpora_come_under_one_scheme(data: Path) -> None:
    labels = {name: ner_corpora.read(data, name)[0].labels for name in ("wikigold", "btc", "wnut17", "gum")}

    assert labels["wikigold"] == ("PERSON", "PERSON", "O", "LOCATION", "O")
    assert labels["btc"] == ("?", "?", "O", "?", "PERSON")
    assert labels["wnut17"] == ("PERSON", "PERSON", "O", "ORGANIZATION", "O")
    assert labels["gum"] == ("?", "?", "PERSON", "PERSON", "O", "O", "?", "O", "LOCATION")


def test_swapping_keeps_words_and_labels_together(data: Path, names: Names) -> None:
    sentence = ner_corpora.read(data, "wikigold")[0]
    swapped = ner_corpora.swapped(sentence, 1.0, lambda kind, rng: f"new {kind.lower()}", random.Random(1))

    assert swapped.words == ("new", "person", "left", "new", "location", ".")
    assert swapped.labels == ("PERSON", "PERSON", "O", "LOCATION", "LOCATION", "O")
    assert ner_corpora.written(swapped, natural=True)[0] == "new person left new location."


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_is_filled_and_its_names_are_marked(name: str, names: Names) -> None:
    language, rng = Language.of(name, names, 1), random.Random(2)
    for template in language.file.templates:
        text, spans = language.fill(template, rng)
        assert not re.search(r"\{[a-z_.]+\}", text)
        assert all(text[start:end].strip() for start, end, _ in spans)
        assert {kind for _, _, kind in spans} <= {*LABELS[1:], IGNORED}
    for plain in language.file.plain:
        assert {kind for _, _, kind in language.fill(plain, rng)[1]} <= {IGNORED}


def test_a_slot_has_the_case_that_it_asks_for(names: Names) -> None:
    polish, german, rng = Language.of("pl", names, 1), Language.of("de", names, 1), random.Random(3)
    women = {form(entry, "ins") for entry in polish.file.entries("first_f")}
    men = {form(entry, "ins") for entry in polish.file.entries("first_m")}
    drawn = {polish.fill("z {first.ins}", rng)[0].removeprefix("z ") for _ in range(50)}

    assert drawn <= women | men
    assert german.fill("{last.gen} Auto", random.Random(5))[0].removesuffix(" Auto")[-1] in "sßxz"


def test_a_treebank_teaches_only_what_is_no_name(data: Path) -> None:
    lines = [
        "# text = Lange wohnte Anna van der Berg dort.",
        *(
            f"{number}\t{word}\t_\t{tag}"
            for number, (word, tag) in enumerate(
                [
                    ("Lange", "ADV"),
                    ("wohnte", "VERB"),
                    ("Anna", "PROPN"),
                    ("van", "ADP"),
                    ("der", "DET"),
                    ("Berg", "PROPN"),
                    ("dort", "ADV"),
                ],
                1,
            )
        ),
        "",
    ]
    path = data / "languages" / "ud_pl_pud.conllu"
    path.parent.mkdir()
    path.write_text("\n".join(lines), encoding="utf-8")

    assert ner_corpora.read(data, "ud-pl")[0].labels == ("O", "O", "?", "?", "?", "?", "O")


@pytest.mark.usefixtures("english")
def test_a_step_has_one_batch(data: Path) -> None:
    first, again = Batches(data, 5, names_size=60), Batches(data, 5, names_size=60)
    batch, other = first.batch(3, 300), first.batch(4, 300)

    assert all(torch.equal(batch[name], tensor) for name, tensor in again.batch(3, 300).items())
    assert batch["ids"].shape != other["ids"].shape or not torch.equal(batch["ids"], other["ids"])
    assert set(batch["labels"].unique().tolist()) <= {-100, 0, 1, 2, 3}
    assert batch["ids"].shape == batch["cases"].shape == batch["mask"].shape == batch["labels"].shape


def test_infill_asks_for_what_it_hides(data: Path) -> None:
    text = {"text": "The film was long, and nobody in the house knew why it had been made. " * 20, "label": 1}
    for file in ("imdb/train", "imdb/test", "lm/yelp_sentences", "lm/wikitext2_valid"):
        write(data / f"{file}.jsonl.gz", text)
    for file in ("mr_all", "cr_all", "mpqa_all", "trec6_train", "sst5_train"):
        write(data / f"senteval/{file}.jsonl.gz", text)
    for file in ("sst2", "mnli", "qnli", "qqp"):
        write(data / f"glue/{file}_train.jsonl.gz", {"sentence": text["text"], "label": 0})
    write(data / "ner/wikigold.jsonl.gz", *[SENTENCE] * 30)
    batches = public_batches(data, 7)
    batch = batches.batch(0, 512)

    flat = batch.ids.reshape(-1)
    assert batch.ids.numel() == 512
    assert 0.1 < len(batch.positions) / 512 < 0.4
    assert 0.7 < float((flat[batch.positions] == MASK).float().mean()) < 0.98
    assert (batch.truth > 999).all()
    assert torch.equal(batches.batch(0, 512).ids, batch.ids)
    assert np.isclose(float(batches.frequencies().sum()), 1, atol=1e-4)
    held = held_out(HELD_OUT["imdb-test"](data), 32, 4)
    assert (held.ids.reshape(-1)[held.positions] == MASK).all()
    assert not (held.truth == MASK).any()
