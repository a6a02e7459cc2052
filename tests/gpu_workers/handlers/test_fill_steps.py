"""Long model fills in steps: the same words as in one task, each place drawn once, other tenants between the steps."""

import pickle
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pieces_kit import run_batches

from core.amounts import NANO
from core.errors import InvalidInput, TaskFailed
from core.text import model_fills
from core.text.fill_top_k import top_1
from core.text.mask_words import AllowLists
from core.text.model_fills import CONTEXT_CHARS, Blank, Candidates, FloatArray, PartlyFilled, first_words
from core.text.policy import DP, TOP_1, TOP_K, MaskPolicy, Sanitised
from core.text.sanitize import Inspected, inspect
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers import filler
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.handlers.sanitize_tasks import DocumentTask, FillTask

ALL = MaskPolicy(techniques=("all",))
RARE = MaskPolicy(techniques=("vocabulary",))
WORDS = ("quartz", "zebra", "wife", "day", "river", "stone")
PLACES = 500
LONG = " ".join(f"zqxv{n} and, {n} of the {'good old ' * (n % 40)}house;" for n in range(PLACES // 2))
SHORT = DocumentTask("Write to Zworykin", RARE, TOP_1)


class Reader:
    """A model whose answer depends on all that it reads. Text with `poison` to the left fails."""

    name = "reader"
    candidates = Candidates(WORDS)
    considered = len(WORDS)

    def __init__(self) -> None:
        self.calls: list[list[Blank]] = []

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        self.calls.append(list(blanks))
        return [
            [WORDS[(self._hash(blank) + n) % len(WORDS)] for n in range(min(count, len(WORDS)))] for blank in blanks
        ]

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        self.calls.append(list(blanks))
        return np.array([[self._hash(blank) % (7 + n) for n in range(len(WORDS))] for blank in blanks], np.float32)

    def _hash(self, blank: Blank) -> int:
        if "poison" in blank.before:
            raise ValueError(blank.before)
        return zlib.crc32(repr((blank.before, blank.after, blank.number)).encode())


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Reader:
    reader = Reader()
    monkeypatch.setattr(filler, "infill_model", lambda source, *, device: reader)
    return reader


@pytest.fixture
def sanitiser(model: Reader) -> Sanitiser:
    return Sanitiser(infill="bundled", fill_slots_max=600)


def run(sanitiser: Sanitiser, *groups: tuple[str, list[DocumentTask]]) -> tuple[list[Any], list[list[Any]]]:
    return run_batches(Role.FILL, sanitiser, *groups)


def blanks_of(model: Reader) -> list[Blank]:
    return [blank for call in model.calls for blank in call]


def test_a_long_fill_in_steps_is_the_same_as_in_one_task(model: Reader, sanitiser: Sanitiser) -> None:
    task = DocumentTask(LONG, RARE, TOP_1, explain=10)
    (whole,) = sanitiser.run([task])
    read = blanks_of(model)
    assert len(read) == PLACES
    assert {blank.number for blank in read} == {True, False}
    ((answer,),), batches = run(sanitiser, ("a", [task]))
    assert answer == whole
    assert len(answer.origins) == len(answer.spans) == PLACES
    assert answer.language is not None
    assert len(batches) == PLACES / 10
    assert all(task.weight <= 512 for batch in batches[1:] for task in batch)
    filled = blanks_of(model)[-PLACES:]
    assert filled == read, "the model reads the same for each place"


def test_a_part_shows_the_model_what_the_whole_document_does() -> None:
    for count in [1, 3, 7]:
        for text in [
            "zqxv, zqxw",
            "zqxv" + " of the" * 400 + " zqxw" + "." * CONTEXT_CHARS + "zqxx, 12, zqxy",
            "zqxv, " * 300,
            f"the {'zqxv' * 1000}, {'zqxv' * 1000}; of",
            "of " * 399 + "and zqxv," + "." * (CONTEXT_CHARS - 1) + "zqxv." + "." * (CONTEXT_CHARS - 2) + "zqxv",
        ]:
            found = inspect(text, RARE, AllowLists())
            whole = Reader()
            (words,) = first_words([found], [top_1()], whole, [len(found.masks)])
            parts = Reader()
            state = PartlyFilled.of(found, words[:1])
            while state.left:
                places = min(count, state.left)
                own, masks = state.part(places)
                (filled,) = first_words([Inspected(own, (), masks)], [top_1()], parts, [places])
                state = state.filled(filled)
            assert blanks_of(parts) == blanks_of(whole)[1:]
            assert list(state.words) == words


def test_a_short_fill_of_another_tenant_runs_between_the_steps(sanitiser: Sanitiser) -> None:
    (_, (short,)), batches = run(sanitiser, ("a", [DocumentTask(LONG, RARE, TOP_1)]), ("b", [SHORT]))
    assert isinstance(short, Sanitised)
    number = next(number for number, batch in enumerate(batches) if any(task.text == SHORT.text for task in batch))
    assert number < 3
    assert sum(isinstance(task, FillTask) for batch in batches[number + 1 :] for task in batch) > 40


@pytest.mark.parametrize(("scope", "share"), [("slot", 1), ("document", 120)])
def test_each_place_is_drawn_once_by_dp_at_its_share(
    sanitiser: Sanitiser, monkeypatch: pytest.MonkeyPatch, scope: str, share: int
) -> None:
    drawn: list[tuple[int | None, int]] = []

    def draw(scored: np.ndarray, own: int | None, *, epsilon_nano: int) -> int:
        drawn.append((own, epsilon_nano))
        return own or 0

    monkeypatch.setattr(model_fills, "select", draw)
    text = " ".join(WORDS * 20)
    document = DocumentTask(text, ALL, DP, 600 * NANO, scope=scope)
    ((answer,),), batches = run(sanitiser, ("a", [document]))

    assert len(batches) == 12
    assert answer.text == text
    assert (answer.tokens, answer.masked_tokens) == (120, 120)
    assert drawn == [(n % len(WORDS), 600 * NANO // share) for n in range(120)]


def test_the_draws_before_a_step_that_fails_are_not_repeated(
    sanitiser: Sanitiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int | None] = []

    def draw(scored: np.ndarray, own: int | None, *, epsilon_nano: int) -> int:
        drawn.append(own)
        return own or 0

    monkeypatch.setattr(model_fills, "select", draw)
    text = " ".join(f"zqxv{n}," if n != 35 else "of poison and" for n in range(100))
    policy = MaskPolicy(techniques=("vocabulary",), vocabulary_size=100_000)
    ((failed, short), (other,)), _ = run(
        sanitiser,
        ("a", [DocumentTask(text, policy, DP, NANO), DocumentTask("zqxv", policy, DP, NANO)]),
        ("b", [DocumentTask("Zworykin " * 100, policy, DP, NANO)]),
    )

    assert isinstance(failed, TaskFailed)
    assert b"zqxv" not in pickle.dumps(failed)
    assert isinstance(short, Sanitised)
    assert isinstance(other, Sanitised)
    assert len(drawn) == 35 + 1 + 1


def test_a_document_with_too_many_places_is_refused_before_any_is_filled(model: Reader, sanitiser: Sanitiser) -> None:
    ((refused,),), batches = run(sanitiser, ("a", [DocumentTask("zqxv, " * 601, RARE, TOP_1)]))
    assert isinstance(refused, InvalidInput)
    assert len(batches) == 1
    assert blanks_of(model) == []


def test_top_k_does_not_use_words_of_the_list_in_any_step(sanitiser: Sanitiser) -> None:
    policy = MaskPolicy(techniques=("vocabulary",), vocabulary_size=5_000)
    ((answer,),), _ = run(sanitiser, ("a", [DocumentTask("zqxv, " * 100, policy, TOP_K, k=2)]))
    assert set(answer.text.replace(",", "").split()) == {"quartz", "zebra"}


def test_the_tasks_of_steps_do_not_show_text(sanitiser: Sanitiser) -> None:
    _, batches = run(sanitiser, ("a", [DocumentTask("zqxv, " * 100, RARE, TOP_1)]))
    assert "zqxv" not in repr(batches)
