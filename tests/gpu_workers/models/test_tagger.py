"""The entity tagger: spans that stand where they should, in documents of any length, alone or in company."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from tiers import cells
from tiny_models import PEOPLE, PLAIN, TOWNS, adapter, checkpoint
from transformers import AutoModelForTokenClassification

from gpu_workers.models.embedded import embedded_vocabulary
from gpu_workers.models.tagger import EntityTagger, embedded_tagger, pretrained_tagger


@pytest.fixture(scope="module", params=cells(["bert", "roberta"]))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    return checkpoint(path, request.param, AutoModelForTokenClassification, teach=True)


@pytest.fixture(scope="module")
def tagger(folder: Path) -> EntityTagger:
    return pretrained_tagger(folder)


def test_names_are_found_at_their_characters(tagger: EntityTagger) -> None:
    text = "the parcel that alice sent to bob went from lima to oslo"
    found = tagger.tag([text])[0]
    assert [(text[e.start : e.end], e.type) for e in found] == [
        ("alice", "PERSON"), ("bob", "PERSON"), ("lima", "LOCATION"), ("oslo", "LOCATION"),
    ]  # fmt: skip
    assert all(0.25 <= entity.score <= 1 for entity in found)
    assert tagger.types == ("LOCATION", "PERSON")


def test_a_name_beside_an_emoji_is_a_word(tagger: EntityTagger) -> None:
    text = "the parcel went from \U0001f4cdlima to oslo\U0001f3e0\ufe0f with alice"
    found = tagger.tag([text])[0]
    assert [text[entity.start : entity.end] for entity in found] == ["lima", "oslo", "alice"]
    assert tagger.reads_all(text)


def test_a_long_document_is_read_to_its_end(tagger: EntityTagger) -> None:
    """Forty positions, a thousand words: names are found wherever they stand."""
    rng = random.Random(5)
    words = [rng.choice(PEOPLE + TOWNS) if i % 9 == 4 else rng.choice(PLAIN) for i in range(1_000)]
    text = " ".join(words)
    found = tagger.tag([text])[0]
    expected = [word for word in words if word in PEOPLE + TOWNS]
    assert [text[entity.start : entity.end] for entity in found] == expected


def test_companions_change_nothing(tagger: EntityTagger) -> None:
    rng = random.Random(6)
    documents = [" ".join(rng.choices((*PEOPLE, *TOWNS, *PLAIN), k=rng.choice([1, 5, 30, 90]))) for _ in range(20)]
    documents += ["", "   ", "\n"]
    together = tagger.tag(documents)
    alone = [tagger.tag([document])[0] for document in documents]
    for a, b in zip(together, alone, strict=True):
        assert [(e.start, e.end, e.type) for e in a] == [(e.start, e.end, e.type) for e in b]
        assert np.allclose([e.score for e in a], [e.score for e in b], atol=1e-4)
    assert together[-3:] == [[], [], []]


@pytest.mark.parametrize("threads", [1, 2])
def test_other_documents_are_read_between_two_batches_of_a_long_one(
    tagger: EntityTagger, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(7)
    document, other = (" ".join(rng.choices((*PEOPLE, *TOWNS, *PLAIN), k=words)) for words in (900, 8))
    alone, between = tagger.tag([other]), []
    if threads > 1:
        monkeypatch.setattr(tagger, "_pool", ThreadPoolExecutor(threads))
    found = tagger.begin([document], lambda: between.append(tagger.tag([other])))()
    assert len(between) > 1
    assert all([e.start for e in own[0]] == [e.start for e in alone[0]] for own in between)
    assert [e.start for e in found[0]] == [e.start for e in tagger.tag([document])[0]]


def test_special_tokens_in_a_text_are_text(tagger: EntityTagger) -> None:
    text = "[SEP] </s> alice [MASK] <mask> [PAD] <pad>"
    spans = [(text[entity.start : entity.end], entity.type) for entity in tagger.tag([text])[0]]
    assert ("alice", "PERSON") in spans


def test_a_credential_keeps_its_marks_and_is_no_part_of_a_name() -> None:
    labels = ("O", "PERSON", "PASSWORD", "SECRET")
    for text, labelled, found in [
        ("log in as maria hunter2! now", {"maria": "PERSON", "hunter2!": "PASSWORD"}, ["maria", "hunter2!"]),
        ("say correct horse staple twice", {"correct horse staple": "PASSWORD"}, ["correct horse staple"]),
        ("key (a+b/c==)", {"a+b/c==": "SECRET"}, ["a+b/c=="]),
        ("one\ntwo", {"one\ntwo": "PASSWORD"}, ["one", "two"]),
        ("(anna berg), oslo", {"(anna berg),": "PERSON"}, ["anna berg"]),
        ("anna (berg), oslo", {"anna (berg": "PERSON"}, ["anna (berg)"]),
    ]:
        starts = embedded_vocabulary().tokenizer.encode(text, add_special_tokens=False).offsets
        codes = [0] * (len(starts) + 2)
        for part, label in labelled.items():
            begin = text.index(part)
            for number, (start, _) in enumerate(starts, 1):
                if begin <= start < begin + len(part):
                    codes[number] = labels.index(label)

        logits = 9.0 * torch.nn.functional.one_hot(torch.tensor([codes]), len(labels))
        tagger = EntityTagger(
            vocabulary=embedded_vocabulary(),
            labels=labels,
            forward=lambda *_, logits=logits: logits,
            device=torch.device("cpu"),
            name="given",
        )
        assert [text[entity.start : entity.end] for entity in tagger.tag([text])[0]] == found


def test_unsafe_or_nameless_checkpoints_are_refused(folder: Path, tmp_path: Path) -> None:
    model = AutoModelForTokenClassification.from_pretrained(folder)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    model.config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="safetensors"):
        pretrained_tagger(tmp_path)
    model.config.id2label = {number: f"LABEL_{number}" for number in range(5)}
    model.save_pretrained(tmp_path)
    for file in folder.glob("*token*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ValueError, match="labels"):
        pretrained_tagger(tmp_path)


def test_the_served_adapter_is_the_trained_one(tmp_path: Path) -> None:
    trained = adapter(tmp_path / "a.safetensors", "tagger")
    served = embedded_tagger(tmp_path / "a.safetensors", dtype=torch.float32)._forward
    ids = torch.randint(1_000, 20_000, (3, 17))
    cases = torch.randint(0, 8, (3, 17))
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    with torch.inference_mode():
        expected, given = trained(ids, cases, mask), served(ids, cases, mask)
    assert torch.allclose(expected[mask == 1], given[mask == 1], atol=1e-4)
    assert expected.std() > 0.01


def test_an_adapter_of_something_else_is_refused(tmp_path: Path) -> None:
    for changes, message in [
        ({"encoder_fingerprint": "0" * 64}, "another encoder"),
        ({"kind": "infill"}, "not a tagger"),
    ]:
        adapter(tmp_path / "a.safetensors", "tagger", **changes)
        with pytest.raises(ValueError, match=message):
            embedded_tagger(tmp_path / "a.safetensors")
