"""Tokens and what they leave uncovered."""

import unicodedata

from hypothesis import example, given
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


@given(
    before=st.text(max_size=20),
    after=st.text(max_size=20),
    old=st.text(min_size=1, max_size=5),
    new=st.text(max_size=5),
)
@example(before="a.", after="", old="b", new="3")
@example(before="4.", after="", old="b", new="3")
def test_a_word_that_leaves_the_number_of_words_as_it_is_changes_no_other(before, after, old, new):
    """The neighbours of `metric_dp` and `dp` over the whole text. "4.b" has two words, "4.3" one: no neighbours."""
    text = before + old + after
    place = (len(before), len(before) + len(old))
    if place not in tokenize(text) or tokenize(new) != [(0, len(new))]:
        return
    one, other = words(text), words(before + new + after)
    assert len(other) <= len(one)
    if len(other) == len(one):
        assert sum(a != b for a, b in zip(one, other, strict=True)) <= 1
