"""Long documents with `metric_dp`: their words are drawn in parts, each word once, with other tenants in between."""

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pieces_kit import run_batches

from core.errors import TaskFailed
from core.mechanisms.words.pricing import MECHANISMS
from core.text import fill_surrogate
from core.text.policy import METRIC_DP, MaskPolicy, Sanitised
from core.text.surrogates.draw import Draw
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.handlers.sanitize_tasks import DocumentTask, SurrogateTask, WordTask

ALL = MaskPolicy(techniques=("all",))
RARE = MaskPolicy(techniques=("vocabulary", "entity"))
LONG = ", ".join(f"zqxv{n} and zqxw{n % 9} in the house" for n in range(1_500)) + " jo@corp.internal" + ";zqxx" * 5_000
SHORT = DocumentTask("Write to jo@example.org", MaskPolicy())


class Mirror:
    """A word mechanism that returns its input with a mark, and keeps it."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.epsilons: set[int] = set()

    def release(self, words: Sequence[str], epsilon_nano: Sequence[int]) -> list[str]:
        self.calls.append(list(words))
        self.epsilons |= set(epsilon_nano)
        if "poison" in words:
            raise ValueError(words)
        return [f"{word}-new" for word in words]


def run(*groups: tuple[str, DocumentTask]) -> tuple[list[Any], list[list[Any]], Mirror]:
    """The results, the batches and the draws."""
    mirror, handler = Mirror(), Sanitiser()
    handler._words = dict.fromkeys(MECHANISMS, mirror)
    pairs = ((tenant, [task]) for tenant, task in groups)
    return *run_batches(Role.SANITIZE, handler, *pairs, isolate=False), mirror


def test_each_word_is_drawn_once_and_put_in_its_place() -> None:
    for policy in [ALL, RARE]:
        document = DocumentTask(LONG, policy, METRIC_DP, 7)
        whole, once = Sanitiser(), Mirror()
        whole._words = dict.fromkeys(MECHANISMS, once)
        (expected,) = whole.run([document])
        ((answer,),), batches, mirror = run(("a", document))

        assert answer == expected
        assert mirror.epsilons == {7}
        drawn = Counter(word for call in mirror.calls for word in call)
        assert drawn == Counter(word for call in once.calls for word in call)
        assert drawn["zqxx"] == 5_000
        assert sum(isinstance(task, WordTask) for batch in batches for task in batch) >= 3
        assert all(len(set(call)) <= 512 and len(call) <= 8 * 512 for call in mirror.calls)
        assert "zqxv" not in repr(batches)


def test_a_part_that_fails_fails_its_document_alone_and_says_nothing() -> None:
    (failed, (short,)), _, mirror = run(("a", DocumentTask(f"{LONG} poison", ALL, METRIC_DP, 7)), ("b", SHORT))
    assert isinstance(failed, TaskFailed)
    assert b"poison" not in pickle.dumps(failed)
    assert isinstance(short, Sanitised)
    assert max(Counter(word for call in mirror.calls for word in set(call) if word.startswith("zqxv")).values()) == 1


MAILS = [f"jo{n}@corp{n % 7}.internal" for n in range(1_500)]


def test_surrogates_are_drawn_in_parts_and_are_those_of_one_document() -> None:
    text = ", ".join(MAILS + [mail.upper() for mail in MAILS])
    policy = MaskPolicy(entities=("EMAIL_ADDRESS",))
    ((answer,), (short,)), batches, _ = run(("a", DocumentTask(text, policy, "surrogate")), ("b", SHORT))
    parts = [task for batch in batches for task in batch if isinstance(task, SurrogateTask)]
    assert len(parts) == 6
    assert isinstance(short, Sanitised)
    filled = answer.text.split(", ")
    assert [value.upper() for value in filled[:1_500]] == filled[1_500:], "one value for one string, in its letter case"
    assert len(set(filled)) == 3_000, "no two strings share a value"
    assert all("internal" not in value and "@example." in value.lower() for value in filled)
    assert "corp" not in repr(batches)


def test_a_surrogate_repeats_no_original_of_another_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first value that is offered for each string is a masked string of the document."""
    offered: list[int] = []

    def fake(kind: str, original: str, drawing: Draw) -> str:
        offered.append(drawing.attempt)
        return MAILS[-1] if drawing.attempt == 0 else f"value{len(offered)}@example.org"

    monkeypatch.setattr(fill_surrogate, "fake", fake)
    policy = MaskPolicy(entities=("EMAIL_ADDRESS",))
    sanitiser = Sanitiser()
    (words,) = sanitiser.run([replace(DocumentTask(", ".join(MAILS), policy, "surrogate"), places_max=512)])
    results = sanitiser.run([SurrogateTask(part, words.terms, policy) for part in words.parts])
    assert all(b"internal" not in result for result in results)
    assert offered == [0, 1] * len(MAILS)


def test_two_parts_that_draw_the_same_value_get_two() -> None:
    """Each part draws from the same few values, and no two strings of the document share one in the end."""
    text = ", ".join(f"00:1B:44:{n >> 8:02X}:{n & 255:02X}:B7" for n in range(1_500))
    policy = MaskPolicy(entities=("MAC_ADDRESS",))
    ((answer,), _), batches, _ = run(("a", DocumentTask(text, policy, "surrogate")), ("b", SHORT))
    assert len([task for batch in batches for task in batch if isinstance(task, SurrogateTask)]) == 3
    assert len(set(answer.text.split(", "))) == 1_500


def test_a_key_gives_the_same_values_whether_a_document_is_divided_or_not() -> None:
    policy = MaskPolicy(entities=("EMAIL_ADDRESS",))
    document = DocumentTask(", ".join(MAILS), policy, "surrogate", surrogate_key=b"k" * 32)
    ((answer,), _), _, _ = run(("a", document), ("b", SHORT))
    (whole,) = Sanitiser().run([document])
    assert answer.text == whole.text
    assert "kkkk" not in repr(document)


def test_the_mechanisms_draw_the_parts() -> None:
    document = DocumentTask(" ".join(f"morning w{n}" for n in range(700)), ALL, METRIC_DP, 40 * 10**9)
    sanitiser = Sanitiser()
    known = set(sanitiser._vocabulary.words)
    (words,) = sanitiser.run([piece.payload for piece in document.pieces(512).tasks])
    results = sanitiser.run([WordTask(part, "exponential", 40 * 10**9) for part in words.parts])
    rest = document._continued([words]).payload.pieces(512).join(results)
    (answer,) = sanitiser.run([rest.payload])
    assert len(answer.text.split()) == answer.masked_tokens == 1_400
    assert known.issuperset(answer.text.split())
    assert answer.text.split()[::2].count("morning") > 690
