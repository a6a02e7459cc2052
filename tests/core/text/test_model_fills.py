"""The fills of a language model: what each place reads, in which order, and what is drawn. The model is a stand-in."""

from collections.abc import Sequence

import numpy as np
import pytest

from core.amounts import NANO
from core.errors import TaskFailed
from core.mechanisms.words.pricing import DOCUMENT, SLOT
from core.text.fill_top_k import top_1, top_k
from core.text.mask_words import AllowLists
from core.text.model_fills import (
    CONTEXT_CHARS,
    Blank,
    Candidates,
    FillStrategy,
    FloatArray,
    Scored,
    dp_draws,
    fill_left_to_right,
    slots_of,
)
from core.text.policy import MaskPolicy, Sanitised
from core.text.sanitize import Inspected, inspect, inspect_words
from core.text.segment import count_tokens

LISTS = AllowLists()
FEW = MaskPolicy(techniques=("vocabulary",), vocabulary_size=5_000)
ALL = MaskPolicy(techniques=("all",))
WORDS = ("the", "wife", "zebra", "quartz", "day")


class Recorder:
    """Ranks its words in a fixed order, and remembers every blank."""

    name = "recorder"
    candidates = Candidates(WORDS)

    def __init__(self, words: Sequence[str] = WORDS, favourite: str = "zebra") -> None:
        self.words, self.favourite, self.calls = words, favourite, list[list[Blank]]()

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        self.calls.append(list(blanks))
        return [list(self.words[:count]) for _ in blanks]

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        self.calls.append(list(blanks))
        return np.array([[20.0 * (word == self.favourite) for word in WORDS]] * len(blanks), dtype=np.float32)


def fill(
    texts: Sequence[str], model: Recorder, make: FillStrategy | None = None, policy: MaskPolicy = FEW
) -> list[str]:
    found = [inspect(text, policy, LISTS) for text in texts]
    filled = fill_left_to_right(found, [make or top_1()] * len(found), model)
    return [each.text for each in filled]


def slots(text: str, policy: MaskPolicy) -> Inspected:
    return slots_of(inspect_words(text, policy, LISTS), policy)


def dp(found: Inspected, epsilon: float, model: Recorder, scope: str = SLOT) -> Sanitised:
    way = dp_draws(found, round(epsilon * NANO), model.candidates, scope=scope)
    return fill_left_to_right([found], [way], model)[0]


def test_regions_are_filled_from_the_left_and_each_sees_the_ones_before_it() -> None:
    model = Recorder(["day"])
    assert fill(["He met Zworykin and Xylotron, in Grubenhagen."], model) == ["He met day and day, in day."]
    assert [call[0] for call in model.calls] == [
        Blank("He met ", (" and ", ", in ", ".")),
        Blank("He met day and ", (", in ", ".")),
        Blank("He met day and day, in ", (".",)),
    ]


def test_the_model_sees_nothing_of_what_was_masked() -> None:
    seen = []
    for names in (("Zworykin", "Grubenhagen"), ("Oppenheimer", "Xylotron Rotterdamer")):
        model = Recorder(["day"])
        fill([f"He met {names[0]} in {names[1]} on that day."], model)
        seen.append(model.calls)
    assert seen[0] == seen[1]


def test_the_model_gets_the_places_of_numbers_and_never_by_dp() -> None:
    model = Recorder(["day"])
    text = "He met 4711 or 12:30 Zworykin in 1,234.5, and R2D2."
    fill([text], model)
    assert [call[0].number for call in model.calls] == [True, False, True, False]
    model = Recorder()
    dp(slots(text, FEW), 8.0, model)
    assert not any(call[0].number for call in model.calls)


def test_a_long_text_is_read_around_each_region() -> None:
    model = Recorder(["day"])
    text = "he was there " * 400 + "Zworykin" + " and she was too" * 400 + " Xylotron."
    (filled,) = fill([text], model)
    assert filled == text.replace("Zworykin", "day").replace("Xylotron", "day")
    for (blank,) in model.calls:
        assert len(blank.before) == CONTEXT_CHARS
        assert sum(map(len, blank.after)) <= CONTEXT_CHARS
        assert blank.before.endswith(("he was there ", "and she was too "))


def test_top_k_prefers_what_the_list_would_have_masked() -> None:
    found = inspect("He met Zworykin.", FEW, LISTS)
    way = top_k(found.masks, FEW, LISTS, count=2, considered=100)
    assert way.count == 100
    drawn = {way.choose(0, ["the", "zebra", "day", "quartz", "Xylotron"]) for _ in range(200)}
    assert drawn == {"zebra", "quartz"}, "the best two that are not among the 5,000 most frequent words"
    assert {way.choose(0, ["the", "day", "wife"]) for _ in range(200)} == {"the", "day"}


def test_top_k_is_uniform_where_no_list_masked() -> None:
    found = inspect("Write to jo@example.org", MaskPolicy(), LISTS)
    way = top_k(found.masks, MaskPolicy(), LISTS, count=5, considered=100)
    assert way.count == 5
    drawn = [way.choose(0, WORDS) for _ in range(2_000)]
    assert all(300 < drawn.count(word) < 500 for word in WORDS)


def test_originals_of_other_slots_cannot_be_read() -> None:
    texts = ["wife zebra quartz", "wife day zebra"]
    seen = []
    for text in texts:
        model = Recorder()
        dp(slots(text, ALL), 400.0, model)
        seen.append(model.calls)
    assert seen[0][:2] == seen[1][:2], "until the first word that differs is released, the model reads the same"
    assert [call[0].before for call in seen[0]] == ["", "wife ", "wife zebra "], (
        "released words, which are the same in both texts"
    )
    assert [call[0].before for call in seen[1]] == ["", "wife ", "wife day "]


def test_a_region_is_one_slot_whatever_stands_in_it_and_its_span_does_not_tell() -> None:
    policy = MaskPolicy(techniques=("vocabulary", "entity"), vocabulary_size=5_000)
    for secret in ("Zworykin", "Zworykin Xylotron Grubenhagen", "jo@example.org"):
        filled = dp(slots(f"He met {secret} that day.", policy), 400.0, Recorder())
        assert filled.text == "He met zebra that day.", "no candidate: what fits best comes out"
        (span,) = filled.spans
        assert (span.type, span.technique) == ("WORD", "vocabulary+entity")


def test_masks_that_share_a_word_are_one_slot_so_that_counted_words_are_enough() -> None:
    for text, slots in [
        ("from 192.168.1.1,10.0.0.7 to 8.8.8.8, 9.9.9.9", ["192.168.1.1,10.0.0.7", "8.8.8.8", "9.9.9.9"]),
        ("jo@example.org-ann@example.org", ["jo@example.org-ann@example.org"]),
    ]:
        policy = MaskPolicy()
        found = slots_of(inspect_words(text, policy, LISTS), policy)
        assert [text[mask.start : mask.end] for mask in found.masks] == slots
        assert len(found.masks) <= count_tokens(text, stop=100)


def test_with_all_every_word_is_a_slot_and_nothing_else_is_left() -> None:
    filled = dp(slots("Wife, ZEBRA!\n The day?", ALL), 400.0, Recorder())
    assert filled.text == "wife zebra the day"
    assert len(filled.spans) == 4
    assert dp(slots("!?", ALL), 1.0, Recorder()).text == ""


def test_a_document_shares_its_epsilon_and_one_too_small_to_share_draws_uniformly() -> None:
    text = " ".join(["wife"] * 1_000)
    kept = dp(slots(text, ALL), 4_000.0, Recorder(), DOCUMENT).text.split().count("wife")
    expected = 1_000 * np.exp(4.0) / (np.exp(4.0) + np.exp(2.0) + 3)
    assert abs(kept - expected) < 80
    words = dp(slots(text, ALL), 1e-9, Recorder(), DOCUMENT).text.split()
    assert all(100 < words.count(word) < 300 for word in WORDS)


def test_a_model_without_finite_numbers_fails() -> None:
    for bad in [np.nan, np.inf]:
        way = dp_draws(slots("wife", ALL), NANO, Candidates(WORDS), scope=SLOT)
        with pytest.raises(ValueError, match="finite"):
            way.choose(0, np.array([0, 1, bad, 2, 3], dtype=np.float32))


def test_a_document_that_fails_chooses_nothing_more_and_the_others_go_on() -> None:
    """The model fails on every call that holds a blank behind `day`."""

    class Fails(Recorder):
        def logits(self, blanks: Sequence[Blank]) -> FloatArray:
            if any(blank.before == "day " for blank in blanks):
                raise RuntimeError("Zworykin")
            return super().logits(blanks)

    chosen: list[tuple[str, int]] = []

    def way(name: str, word: str) -> Scored:
        return Scored(lambda place, _: (chosen.append((name, place)), word)[1])

    found = [slots(text, ALL) for text in ("one two three", "one two three", "one two")]
    ways = [way("a", "wife"), way("b", "day"), way("c", "quartz")]
    first, failed, last = fill_left_to_right(found, ways, Fails())

    assert isinstance(failed, TaskFailed)
    assert "Zworykin" not in repr(vars(failed))
    assert (first.text, last.text) == ("wife wife wife", "quartz quartz")
    assert chosen == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("c", 1), ("a", 2)]
