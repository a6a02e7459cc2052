"""Tokens and what they leave uncovered."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from core.text.tokens import tokenize


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in tokenize(text)]


def test_words_contractions_hyphens_and_numbers():
    assert words("Don't, well-known: 3.14 at 12:30 (naïve)!") == ["Don't", "well-known", "3.14", "at", "12:30", "naïve"]


def test_a_combining_mark_stays_with_its_letter():
    assert words("cafe\u0301 x") == ["cafe\u0301", "x"]


@given(st.text(max_size=200))
def test_no_letter_mark_or_digit_is_outside_a_token(text):
    covered = set()
    last = 0
    for start, end in tokenize(text):
        assert last <= start < end
        covered.update(range(start, end))
        last = end
    left = [char for place, char in enumerate(text) if place not in covered]
    assert not [char for char in left if char.isalnum() or unicodedata.category(char)[0] in "LNM"]
