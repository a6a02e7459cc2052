"""The unit list of a document, its tokens, and what they leave uncovered."""

import unicodedata

import pytest
import sentencex
from hypothesis import example, given
from hypothesis import strategies as st

from core.text.segment import PART_CHARS_MAX, PART_MARKS_MAX, sentences, tokenize, windows

MARKS = "\"'`«»‘’‚“”‛„‟‹›《》「」"
CHARACTERS = st.sampled_from(
    [*MARKS, *"()[] .!?,\n\rabAB1é漢。", "\n\n", ". ", "''", "``", "\n1. ", "Dr. ", "a@b.org "]
)


def test_sentences_end_at_blank_lines_and_not_at_abbreviations_and_repeated_or_odd_ones_are_kept():
    assert sentences("Dr. Smith went home. He slept.") == ["Dr. Smith went home.", "He slept."]
    assert sentences("One thing.\n\n\n  Another thing. ") == ["One thing.", "Another thing."]
    assert sentences("Yes. Yes. ?!").count("Yes.") == 2
    assert "".join(sentences("Yes. Yes. ?!")).replace(" ", "") == "Yes.Yes.?!"


def test_space_alone_holds_no_sentence_and_no_window():
    for text in ["", "   ", "\n\n\t \u00a0"]:
        assert sentences(text) == windows(text, 4) == []


@given(st.lists(CHARACTERS, max_size=60).map("".join))
def test_paragraphs_within_the_limits_give_the_sentences_of_the_segmenter(text):
    expected = [sentence for segment in sentencex.segment("en", text) if (sentence := segment.strip())]
    assert sentences(text) == expected
    filler = "This paragraph is short. It has two sentences.\n\n" * 200
    assert sentences(filler + text + "\n\n" + filler)[400:-400] == expected


UNITS = ["“", "「“《》", "``“é“", "„''", '‘"》', "'a ", "`", "\n1. a. A", '(a. A)"', "A!", "a", " ", "漢", "\n", "\r"]


@pytest.mark.parametrize("unit", UNITS)
def test_the_segmenter_reads_a_long_paragraph_in_parts(unit, monkeypatch):
    """Its time may grow with the product of the length and the number of quotation marks."""
    original, read = sentencex.segment, []

    def segment(language, text):
        read.append(text)
        return original(language, text)

    monkeypatch.setattr(sentencex, "segment", segment)
    text = unit * (60_000 // len(unit))
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(len(part) <= PART_CHARS_MAX for part in read)
    assert all(sum(part.count(mark) for mark in MARKS) <= PART_MARKS_MAX for part in read)
    assert sum(map(len, read)) <= len(text) * 4 / 3


@given(st.lists(CHARACTERS, min_size=1, max_size=12).map("".join))
def test_no_character_is_lost_between_parts(unit):
    text = unit * (2 * PART_CHARS_MAX // len(unit))
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_a_long_paragraph_is_divided_between_sentences():
    text = " ".join(f"Sentence number {number} has a few words (and brackets)." for number in range(2_000))
    assert sentences(text) == [sentence for segment in sentencex.segment("en", text) if (sentence := segment.strip())]


def test_a_long_sentence_is_divided_at_a_space():
    words = ["word"] * 3_000
    found = sentences(" ".join(words))
    assert " ".join(found).split() == words
    assert all(len(sentence) <= PART_CHARS_MAX for sentence in found)


def test_windows_are_of_equal_size_to_within_one_word():
    assert windows("a b c d e f g", 3) == ["a b", "c d", "e f g"]
    assert windows("a b c", 3) == ["a b c"]
    assert windows(" a\n\tb\u00a0c ", 1) == ["a", "b", "c"]


WORD = st.text(min_size=1, max_size=6).filter(lambda word: len(word.split()) == 1 and word.split()[0] == word)


@given(
    words=st.lists(WORD, min_size=1, max_size=60),
    spaces=st.lists(st.sampled_from([" ", "\n", "\u2003", "\x1c \t"]), min_size=61, max_size=61), new=WORD,
    size=st.integers(1, 20), data=st.data(),
)  # fmt: skip
def test_one_replaced_word_changes_one_window_and_no_number(words, spaces, new, size, data):
    place = data.draw(st.integers(0, len(words) - 1))
    others = [*words[:place], new, *words[place + 1 :]]

    def text(parts):
        return "".join(space + part for space, part in zip(spaces, parts, strict=False))

    one, other = windows(text(words), size), windows(text(others), size)
    assert len(one) == len(other) == -(-len(words) // size)
    assert all(len(window.split()) <= size for window in one)
    assert sum(a != b for a, b in zip(one, other, strict=True)) <= 1
    assert " ".join(one).split() == words


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in tokenize(text)]


def test_words_contractions_hyphens_numbers_and_combining_marks():
    assert words("Don't, well-known: 3.14 at 12:30 (naïve)!") == ["Don't", "well-known", "3.14", "at", "12:30", "naïve"]
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
    before=st.text(max_size=20), after=st.text(max_size=20), old=st.text(min_size=1, max_size=5),
    new=st.text(max_size=5),
)  # fmt: skip
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
