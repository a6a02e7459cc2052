"""Prices of sentence-level releases."""

import pytest

from core.accounting.events import Adjacency, Guarantee, Unit
from core.mechanisms.sentences.pack_facts import CodeNoise
from core.mechanisms.sentences.pricing import sentence_event
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS


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
