"""Spans are a sequence, and small when they are sent to another process."""

from __future__ import annotations

import pickle

import pytest

from core.text.lists import AllowLists
from core.text.policy import MaskPolicy
from core.text.sanitize import sanitize
from core.text.spans import Span, Spans

GIVEN = [Span(0, 5, "WORD", "all"), Span(9, 2**40, "URL", "entity"), Span(2**40, 2**40 + 1, "WORD", "all")]


def test_spans_are_the_sequence_that_they_were_made_of() -> None:
    spans = Spans.of(GIVEN)
    assert list(spans) == GIVEN
    assert [spans[0], spans[-1]] == [GIVEN[0], GIVEN[-1]]
    assert spans[1:] == GIVEN[1:]
    assert len(spans) == 3
    assert spans == Spans.of(iter(GIVEN)) == pickle.loads(pickle.dumps(spans))
    assert spans != Spans.of(GIVEN[:2])
    assert not Spans.of([])
    with pytest.raises(IndexError):
        spans[3]


def test_a_document_of_many_places_is_sent_as_few_bytes_and_objects() -> None:
    text = "q," * 20_000
    answer = sanitize(text, MaskPolicy(techniques=("all",)), "marker", lists=AllowLists())
    assert len(answer.spans) == 20_000
    assert len(pickle.dumps(answer)) < len(answer.text) + 20 * len(answer.spans)
