"""What a sentence-level release says that it protects, and its price."""

from itertools import permutations

import pytest

from core.accounting.events import Adjacency, Guarantee, Unit
from core.mechanisms.sentences.domain_pack import CodeNoise
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, protection, sentence_event, words_event

BY_SENTENCE = [name for name in SENTENCE_MECHANISMS if name != "document_selection"]


def test_a_token_is_promised_only_where_it_changes_one_unit() -> None:
    for mechanism in BY_SENTENCE:
        pairs = [tuple(pair) for pair in permutations(("text", "embeddings", "sentences"), 2)]
        for forms in [("text",), ("embeddings",), *pairs]:
            assert protection(mechanism, forms=forms).units == ("sentence",)  # type: ignore[arg-type]
        assert protection(mechanism, forms=("sentences",)).units == ("sentence", "token")
        assert protection(mechanism, segmentation="words").units == ("token",)


def test_every_promised_unit_with_an_account_is_debited() -> None:
    for mechanism in SENTENCE_MECHANISMS:
        for segmentation in ["sentences", "words"]:
            event = sentence_event(mechanism, 0.5) if segmentation == "sentences" else words_event(mechanism, 0.5)
            promised = protection(mechanism, segmentation=segmentation).units  # type: ignore[arg-type]
            assert event.epsilon_nano == 5 * 10**8
            assert {Unit(unit) for unit in promised if unit != "document"} <= set(event.debited_units)
            if segmentation == "words" and mechanism in BY_SENTENCE:
                assert event.debited_units == (Unit.TOKEN,)
                assert event.mechanism == f"{mechanism}_words"
                assert event.kind == sentence_event(mechanism, 0.5).kind


def test_the_document_is_protected_whole_by_its_selection_alone() -> None:
    assert [name for name in SENTENCE_MECHANISMS if protection(name).unit == "document"] == ["document_selection"]
    assert (protection("document_selection").count, protection("sentence_codes").count) == (None, "sentences")


def test_windows_are_of_text_and_a_call_has_documents() -> None:
    with pytest.raises(ValueError, match="made of text"):
        protection("sentence_codes", forms=["text", "sentences"], segmentation="words")
    with pytest.raises(ValueError, match="made of text"):
        protection("sentence_codes", forms=[])
    for priced in (words_event, lambda name, _: protection(name)):
        with pytest.raises(ValueError, match="unknown"):
            priced("softmax", 1)


def test_an_event_states_what_the_mechanism_proves() -> None:
    for name, kind in [
        ("sentence_codes", "pure"),
        ("document_selection", "pure"),
        ("clipped_cosine", "permute_and_flip"),
        ("deep_candidate", "exponential"),
    ]:
        event = sentence_event(name, 0.1)
        assert (event.mechanism, event.kind, event.epsilon_nano, event.delta_femto) == (name, kind, 10**8, 0)
        assert (event.unit, event.adjacency) == (Unit.SENTENCE, Adjacency.REPLACE_ONE)
        assert event.guarantee is Guarantee.PURE_DP


def test_codes_by_counts_cost_less_than_by_responses_and_others_ignore_the_noise() -> None:
    assert sentence_event("sentence_codes", 1, CodeNoise.COUNTS).kind == "two_geometric"
    assert sentence_event("sentence_codes", 1, CodeNoise.RESPONSES) == sentence_event("sentence_codes", 1)
    for name in SENTENCE_MECHANISMS.keys() - {"sentence_codes"}:
        assert sentence_event(name, 1, CodeNoise.COUNTS) == sentence_event(name, 1)


def test_nonsense_is_refused() -> None:
    for name, epsilon in [("softmax", 1), ("clipped_cosine", 0), ("clipped_cosine", float("nan"))]:
        with pytest.raises(ValueError, match=r"unknown|must|costs"):
            sentence_event(name, epsilon)
