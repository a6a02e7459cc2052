"""Patterns of RE2: places in code points, whole words in every script, lines, and linear time."""

from itertools import pairwise

import pytest

from core.text.own_recognisers.patterns import EncodedText, PatternFinder, SearchBudget


def finder(pattern: str, *, whole_words: bool = True, case_sensitive: bool = True) -> PatternFinder:
    return PatternFinder(
        pattern, field="patterns.0", case_sensitive=case_sensitive, whole_words=whole_words, program_bytes_max=1 << 20
    )


def found(text: str, pattern: str, *, whole_words: bool = True, case_sensitive: bool = True) -> list[str]:
    spans = finder(pattern, whole_words=whole_words, case_sensitive=case_sensitive).spans(
        EncodedText(text), SearchBudget()
    )
    return [text[start:end] for start, end in spans]


def test_whole_words_are_found() -> None:
    for pattern, text, expected in [
        (r"PX-\d{4}", "PX-1234", ["PX-1234"]),
        (r"PX-\d{4}", "PX-1234 PX-5678,PX-9999", ["PX-1234", "PX-5678", "PX-9999"]),
        (r"PX-\d{4}", "xPX-1234 üPX-1234 PX-12345 PX-1234é 1PX-1234 _PX-1234", []),
        (r"PX-\d{4}", "😀PX-1234日 日 (PX-1234)😀 «PX-5678»", ["PX-1234", "PX-5678"]),
        (r"\d{3}-\d{3}", "3456-789-012", ["789-012"]), (r"\d{3}", "1234 567", ["567"]),
        (r"[а-я]+", "привет мир", ["привет", "мир"]),
        (r"^Ref: \w+", "Ref: abc\nNo Ref: def\nRef: ghi", ["Ref: abc", "Ref: ghi"]),
        (r"end$", "the end\nendless\nend", ["end", "end"]), (r"a.c", "abc a\nc aüc", ["abc", "aüc"]),
        (r"(?i)px", "PX px", ["PX", "px"]), (r"(PX)-(\d)", "PX-1", ["PX-1"]),
    ]:  # fmt: skip
        assert found(text, pattern) == expected


def test_a_part_of_a_word_is_found_without_whole_words() -> None:
    assert found("xPX-12345", r"PX-\d{4}", whole_words=False) == ["PX-1234"]
    assert found("日本PX1", r"[A-Z]+\d", whole_words=False) == ["PX1"]
    assert found(" a ", r"\s+a\s+", whole_words=False) == [" a "], "the line breaks around the text are no part of it"


def test_case_is_ignored_if_it_is_said_to_be() -> None:
    assert found("Ünlü ÜNLÜ ünlü", "ünlü", case_sensitive=False) == ["Ünlü", "ÜNLÜ", "ünlü"]


def test_places_are_code_points_whatever_is_before() -> None:
    for whole_words in [True, False]:
        for before in ("", "a ", "é ", "日本 ", "😀😀 ", "e\u0301 \u200b "):
            text = f"{before}PX-1 {before}PX-2"
            spans = finder(r"PX-\d", whole_words=whole_words).spans(EncodedText(text), SearchBudget())
            assert [text[start:end] for start, end in spans] == ["PX-1", "PX-2"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"[a-z]+", "a" * 1_000_000), (r"[a-z]+\d", "a" * 1_000_000), (r"(?:a+)+b", "a" * 1_000_000),
        (r"(?:x+x+)+y", "x" * 1_000_000), (r"\d{3}", "1" * 25_000), (r"\d{3}", "123-" * 9_000),
        (r"[ab]*a[ab]{8}c", "ab" * 500_000),
    ],
)  # fmt: skip
def test_a_long_text_is_searched_from_left_to_right_once(
    pattern: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finds do not overlap and follow one another: no part of the text is searched again."""
    monkeypatch.setattr("core.text.own_recognisers.patterns.SEARCH_CPU_S_MAX", 60.0)  # it is that of a window
    for whole_words in (True, False):
        spans = list(finder(pattern, whole_words=whole_words).spans(EncodedText(text), SearchBudget()))
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
