"""The marked texts are read as their authors mean them, and the figures count words and borders as they say."""

from __future__ import annotations

import random

import pytest

from benchmarks.sanitising.marked import LANGUAGES, Figures, Mark, Marked, names, parse, read
from core.text.policy import Mask


def marked(block: str) -> Marked:
    return parse(block, "en", random.Random(1))


def figures(block: str, *masks: tuple[int, int]) -> Figures:
    counted = Figures()
    counted.add(marked(block), [Mask(start, end, "PERSON", "entity") for start, end in masks])
    return counted


def test_marks_have_the_positions_of_what_they_mark() -> None:
    read_text = marked("@de\nFrau [[PERSON:Ada Lang]] und {{ORGANIZATION:die Bahn}}")

    assert read_text == Marked(
        "Frau Ada Lang und die Bahn",
        "de",
        (Mark(5, 13, "PERSON", optional=False), Mark(18, 26, "ORGANIZATION", optional=True)),
    )


def test_an_unknown_type_or_an_open_mark_is_an_error() -> None:
    for block in ["[[PERSN:Ada]]", "{{PERSN:Ada}}", "[[PERSON:Ada"]:
        with pytest.raises(ValueError, match=r"not a type|does not end"):
            marked(block)


def test_every_file_is_readable_and_the_same_each_time() -> None:
    for name in names():
        texts = read(name)

        assert len(texts) >= 40
        assert texts == read(name)
        assert {each.language for each in texts} <= set(LANGUAGES)


def test_words_are_hidden_and_finds_are_hidden_when_all_their_words_are() -> None:
    counted = figures("[[PERSON:Ada Lang]] met [[PERSON:Bo]]", (0, 3), (13, 15))

    assert (counted.words["PERSON"], counted.words_hidden["PERSON"]) == (3, 2)
    assert (counted.finds["PERSON"], counted.finds_hidden["PERSON"]) == (2, 1)
    assert (counted.plain, counted.plain_masked.total()) == (1, 0)


def test_optional_words_count_neither_way() -> None:
    counted = figures("the {{ORGANIZATION:Acme}} team", (4, 13))

    assert (counted.plain, counted.plain_masked) == (2, {"PERSON": 1})
    assert not counted.finds


def test_masks_that_cut_words_or_take_spaces_are_counted() -> None:
    assert figures("hello there", (2, 5)).cut == 1
    assert figures("hello there", (0, 6)).loose == 1
    assert figures("hello there", (0, 5)).cut + figures("hello there", (0, 5)).loose == 0
    assert figures("[[PHONE_NUMBER:+49 30]] now", (0, 6)).loose == 0
