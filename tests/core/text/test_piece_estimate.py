"""The estimate counts every character of dense text, and short words once."""

from __future__ import annotations

from core.text.piece_estimate import estimated_pieces


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
