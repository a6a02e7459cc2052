"""The normal form of words, which tenants choose."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from core.mechanisms.words.normal_form import normal

MARKS = st.sampled_from(
    "\u0301\u0316\u0327\u0344\u0345\u0f71\u0f72\u0f73\u0f75\u302e\u1100\u1161\u11a8각éaǅﬁş\u212b\U0001d15e"
)


@given(st.lists(st.one_of(MARKS, st.characters()), min_size=65, max_size=200).map("".join))
def test_long_words_have_the_form_of_short_ones(word: str) -> None:
    expected = unicodedata.normalize("NFKC", word).casefold()
    assert normal(word) == expected.translate(str.maketrans("’ʼ＇‐‑", "'''--"))


def test_a_long_run_of_marks_ends() -> None:
    """Python's normalisation takes minutes for each of them."""
    assert len(normal("a" + "\u0301\u0316" * 250_000)) == 500_000
    assert len(normal("\u0f73" * 250_000)) == 500_000
