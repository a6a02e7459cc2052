"""The worker's model fills on real models: the bundled one, and tiny BERT and RoBERTa checkpoints of an operator."""

import re
from pathlib import Path

import numpy as np
import pytest
from tiers import cells
from tiny_models import checkpoint
from transformers import AutoModelForMaskedLM

from core.amounts import NANO
from core.errors import InvalidInput, TaskFailed
from core.text.model_fills import Blank
from core.text.policy import MaskPolicy, Sanitised, SanitizeTask
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.models.infill import MaskedInfill, Question, pretrained_infill
from gpu_workers.models.infill_sources import infill_model

ALL = MaskPolicy(techniques=("all",))
FEW = MaskPolicy(techniques=("vocabulary",), vocabulary_size=20_000)


@pytest.fixture(scope="module", params=cells(["bert", "roberta"]))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp(request.param), request.param, AutoModelForMaskedLM)


@pytest.fixture(scope="module")
def sanitiser(folder: Path) -> Sanitiser:
    return Sanitiser(infill=str(folder), fill_slots_max=50)


def texts(answers: list[object]) -> list[str]:
    assert all(isinstance(answer, Sanitised) for answer in answers), answers
    return [answer.text for answer in answers if isinstance(answer, Sanitised)]


def test_a_batch_of_every_mode_is_filled_in_one_go_and_in_order(sanitiser: Sanitiser) -> None:
    words = set(sanitiser._filler._model.candidates.words)
    tasks = [
        SanitizeTask("The parcel went to Zworykin near our house.", FEW, "top1"),
        SanitizeTask("Nobody knows.", FEW, "marker"),
        SanitizeTask("The parcel went to Xylotron near our house.", FEW, "top1"),
        SanitizeTask("Why Zworykin, why?", FEW, "topk", k=3),
        SanitizeTask("the house", ALL, "dp", 400 * NANO),
        SanitizeTask("the house", ALL, "dp", 800 * NANO, scope="document"),
        SanitizeTask("the house", ALL, "metric_dp", 400 * NANO),
    ]
    one, two, three, four, five, six, seven = texts(sanitiser.run(tasks))

    assert one == three, "what was masked does not matter"
    assert one.startswith("The parcel went to ")
    assert one.split()[4] in words
    assert two == "Nobody knows."
    assert four.removeprefix("Why ").removesuffix(", why?") in words
    assert five == six == seven == "the house"


def test_a_masked_number_comes_back_as_a_number_and_a_word_never_does(sanitiser: Sanitiser) -> None:
    for mode in ["top1", "topk"]:
        masked = "She sent {} to Zworykin in {}, and to {}, why?"
        written = [masked.format(*numbers) for numbers in ((4711, "1,234.5", "Xylotron"), (7, "12:30", "Grubenhagen"))]
        filled = texts(sanitiser.run([SanitizeTask(text, FEW, mode, k=3) for text in written] * 5))
        if mode == "top1":
            assert len(set(filled)) == 1, "what was masked does not matter"
        for text in filled:
            places = re.fullmatch(r"She sent (.+) to (.+) in (.+), and to (.+), why\?", text)
            assert places, text
            assert [place.isdecimal() for place in places.groups()] == [True, False, True, False]
            assert [place.isalpha() for place in places.groups()] == [False, True, False, True]


def test_by_dp_and_without_numbers_in_the_vocabulary_a_word_stands_for_a_number(folder: Path) -> None:
    infill = infill_model(str(folder), device="cpu")
    one, other = Blank("she sent ", (" to him",), number=True), Blank("she sent ", (" to him",))
    assert (infill.logits([one]) == infill.logits([other])).all()
    assert all(word.isalpha() for word in infill.candidates.words)
    infill._model.numbers = {}
    wordless = MaskedInfill(infill._model)
    assert wordless.ranked([one], count=5) == wordless.ranked([other], count=5) == infill.ranked([other], count=5)


def test_too_many_places_are_refused_and_the_others_are_filled(sanitiser: Sanitiser) -> None:
    tasks = [SanitizeTask("Zworykin, " * 51, FEW, "topk"), SanitizeTask("Zworykin, " * 50, FEW, "topk")]
    refused, filled = sanitiser.run(tasks)
    assert isinstance(refused, InvalidInput)
    assert "Zworykin" not in filled.text


def test_a_text_of_as_many_words_as_places_allowed_is_never_refused_by_dp(sanitiser: Sanitiser) -> None:
    text = "192.168.1.1,10.0.0.7 " * 50
    assert isinstance(sanitiser.run([SanitizeTask(text, MaskPolicy(), "topk")])[0], InvalidInput)
    (filled,) = texts(sanitiser.run([SanitizeTask(text, MaskPolicy(), "dp", NANO)]))
    assert len(filled.split()) == 50


def test_the_model_s_numbers_are_those_at_the_blank(folder: Path) -> None:
    model = pretrained_infill(folder)
    infill = MaskedInfill(model)
    blank = Blank("The parcel went to ", (" near our ", "."))
    left, middle, right = model.ids(["The parcel went to", " near our", "."])
    hidden = np.array([model.mask], dtype=np.int64)
    question = Question(np.concatenate([left, hidden, middle, hidden, right]), np.array([len(left)]))
    whole = model.logits([question])[0][0]
    names = {word: number for number, word in model.words.items()}
    (row,) = infill.logits([blank])
    assert np.allclose(row, [whole[names[word]] for word in infill.candidates.words], atol=1e-5)
    best = infill.ranked([blank], count=4)[0]
    assert best == [infill.candidates.words[place] for place in np.argsort(-row)[:4]]


def test_facts_name_the_model_and_its_public_list(folder: Path, sanitiser: Sanitiser) -> None:
    facts = sanitiser.warm_up()
    assert facts.fills[-3:] == ("top1", "topk", "dp")
    infill = facts.infill
    assert infill.name == folder.name
    assert infill.candidates > 10
    assert len(infill.candidates_fingerprint) == 64
    again = Sanitiser(infill=str(folder), fill_slots_max=50).warm_up().infill
    assert again == infill


def test_without_a_model_nothing_is_filled_and_nothing_is_claimed() -> None:
    plain = Sanitiser()
    facts = plain.warm_up()
    assert facts.infill is None
    assert "infill" not in facts.as_json()
    assert not {"top1", "topk", "dp"} & set(facts.fills)
    with pytest.raises(TaskFailed):
        plain.run([SanitizeTask("Zworykin", FEW, "top1")])


def test_a_folder_without_a_model_keeps_the_worker_from_starting(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="safetensors"):
        Sanitiser(infill=str(tmp_path), fill_slots_max=50)


def test_a_model_that_gives_no_number_fails_the_warm_up_and_the_fill(folder: Path) -> None:
    broken = Sanitiser(infill=str(folder), fill_slots_max=50)
    lm = broken._filler._model._model
    forward = lm._forward
    lm._forward = lambda ids, mask, places: forward(ids, mask, places) * float("nan")
    with pytest.raises(RuntimeError, match="not finite"):
        broken.warm_up()
    (failed,) = broken.run([SanitizeTask("the house", ALL, "dp", NANO)])
    assert isinstance(failed, TaskFailed)
