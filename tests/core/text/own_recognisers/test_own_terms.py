"""Terms: what counts as an occurrence, and that all of them are found."""

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from core.text.own_recognisers.recogniser import NESTED_TERMS_MAX, TermFinder, fold, folded_terms


def found(text: str, *terms: str, whole_words: bool = True, case_sensitive: bool = False) -> list[str]:
    finder = TermFinder(folded_terms(terms, field="deny", case_sensitive=case_sensitive), whole_words=whole_words)
    return [text[start:end] for start, end in finder.spans(fold(text, case_sensitive=case_sensitive))]


def test_a_term_is_found_as_a_whole_word_in_every_spelling() -> None:
    for term, text, expected in [
        ("falcon", "FALCON Falcon falcons afalcon fal-con", ["FALCON", "Falcon"]),
        ("Straße", "STRASSE, straße", ["STRASSE", "straße"]), ("Ζεύς", "ΖΕΎΣ ζεύσ", ["ΖΕΎΣ", "ζεύσ"]),
        ("café", "cafe CAFE\u0301 cafés", ["CAFE\u0301"]), ("cafe", "café cafe\u0301 cafe", ["cafe"]),
        ("ệ", "e\u0323\u0302 e\u0302\u0323 ê ẹ", ["e\u0323\u0302", "e\u0302\u0323"]),
        ("New York", "new\n  york and New\u00a0York, Newyork", ["new\n  york", "New\u00a0York"]),
        ("Falcon", "Fal\u00adcon Fa\u200blcon\u200b", ["Fal\u00adcon", "Fa\u200blcon"]),
        ("C++", "C++ and xC++, C+++", ["C++", "C++"]), ("東京", "東京 東京都", ["東京"]),
        ("가", "가 각 \u1100\u1161 \u1100\u1161\u11a8", ["가", "\u1100\u1161"]), ("A_1", "A_1 A_12 xA_1", ["A_1"]),
        ("😀 smile", "😀 smile 😀smile", ["😀 smile"]),
    ]:  # fmt: skip
        assert found(text, term) == expected


def test_case_matters_if_it_is_said_to() -> None:
    assert found("Falcon FALCON", "Falcon", case_sensitive=True) == ["Falcon"]
    assert found("cafe\u0301 Café", "café", case_sensitive=True) == ["cafe\u0301"]


def test_without_whole_words_a_part_of_a_word_is_found_and_no_part_of_a_character() -> None:
    assert found("東京都 unFalconed", "東京", "falcon", whole_words=False) == ["東京", "Falcon"]
    assert found("cafés cafe\u0301 cafes", "cafe", whole_words=False) == ["cafe"]
    assert found("각 가", "가", whole_words=False) == ["가"]
    assert found("weiß", "eis", whole_words=False) == ["eiß"], "a letter that folds to two is found as a whole"


def test_overlapping_terms_are_found_and_of_the_same_end_the_longest() -> None:
    assert found("new york city", "New York", "York City", "york") == ["new york", "york city"]
    assert found("new york", "xnew york", "ew york", "york") == ["york"], "the longer one is no whole word"


@settings(max_examples=300)
@given(
    text=st.text(alphabet="aAbß .é\u0301e\u0323\u00ad\n", max_size=30),
    terms=st.lists(st.text(alphabet="aAbßsé e", min_size=1, max_size=4).filter(str.strip), max_size=5),
    whole_words=st.booleans(),
)
def test_normalised_forms_of_a_text_have_the_same_occurrences(text: str, terms: list[str], whole_words: bool) -> None:
    composed, decomposed = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    results = [
        [unicodedata.normalize("NFC", each) for each in found(form, *terms, whole_words=whole_words)]
        for form in (text, composed, decomposed)
    ]
    assert results[0] == results[1] == results[2]


@settings(max_examples=300)
@given(text=st.text(alphabet="ab c", max_size=40), terms=st.sets(st.text(alphabet="ab", min_size=1, max_size=4)))
def test_every_character_of_an_occurrence_is_covered(text: str, terms: set[str]) -> None:
    finder = TermFinder(terms, whole_words=False)
    expected = {
        place
        for term in terms
        for start in range(len(text))
        if text.startswith(term, start)
        for place in range(start, start + len(term))
    }
    covered = {place for span in finder.spans(fold(text, case_sensitive=False)) for place in range(*span)}
    assert covered == expected


def test_the_finds_in_a_text_without_spaces_are_bounded_by_its_length() -> None:
    """At most `NESTED_TERMS_MAX` terms end at a character, whatever the number of terms, and one is found."""
    terms = ["a" * length for length in range(1, NESTED_TERMS_MAX + 1)] + [f"b{number}" for number in range(50_000)]
    finder = TermFinder(folded_terms(terms, field="deny", case_sensitive=False), whole_words=False)
    counts = [sum(1 for _ in finder.spans(fold("a" * size, case_sensitive=False))) for size in (15_625, 250_000)]
    assert counts == [15_625, 250_000]


def test_a_long_run_of_combining_marks_is_put_in_order() -> None:
    marks = "\u0301\u0323" * 100_000
    folded = fold("e" + marks, case_sensitive=False)
    assert folded.text == "e" + "\u0323" * 100_000 + "\u0301" * 100_000
