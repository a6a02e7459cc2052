"""The estimate counts every character of dense text, and short words once."""

from __future__ import annotations

import pytest

from core.text.piece_estimate import cumulative_pieces, estimated_pieces


def test_words_count_once_and_other_characters_each() -> None:
    for text, pieces in [
        ("", 0),
        (" \n\t", 0),
        ("word", 1),
        ("a longer text", 3),
        ("abcdef", 1),
        ("abcdefghi", 2),
        ("x" * 306, 101),
        ("a,", 2),
        ("a,b.c", 5),
        ("漢字 漢字", 4),
        ("\ud800", 1),
        ("word" * 3 + "." + "word", 5),
    ]:
        assert estimated_pieces(text) == pieces


def test_the_cumulative_numbers_are_those_of_each_beginning() -> None:
    text = "The parcel, sent in 2024-03, was `recognised`: 漢字 ok."
    numbers = cumulative_pieces(text)
    assert len(numbers) == len(text) + 1
    assert all(estimated_pieces(text[:n]) == pytest.approx(numbers[n], abs=1) for n in range(len(text) + 1))
    assert all(step >= 0 for step in numbers[1:] - numbers[:-1])
