"""What a release says that it protects."""

from __future__ import annotations

from itertools import permutations

import pytest

from core.accounting.events import Unit
from core.mechanisms.sentences.pricing import sentence_event, words_event
from core.mechanisms.sentences.protection import protection
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS

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


def test_windows_are_of_text_and_a_call_has_documents() -> None:
    with pytest.raises(ValueError, match="made of text"):
        protection("sentence_codes", forms=["text", "sentences"], segmentation="words")
    with pytest.raises(ValueError, match="made of text"):
        protection("sentence_codes", forms=[])
    with pytest.raises(ValueError, match="unknown"):
        words_event("softmax", 1)
