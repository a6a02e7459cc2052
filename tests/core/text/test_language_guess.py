"""The guess of a document's language: right on short texts, and careful with texts that have none."""

from concurrent.futures import ThreadPoolExecutor

from language_texts import OTHERS, SUPPORTED, UNDECIDABLE

from core.text.languages import LANGUAGES, UNKNOWN, Guess, guess, language_of
from core.text.policy import MaskPolicy

TEXTS = [text for texts in (*SUPPORTED.values(), *OTHERS.values(), UNDECIDABLE) for text in texts]


def test_short_texts_in_the_supported_languages_are_recognised() -> None:
    assert SUPPORTED.keys() == set(LANGUAGES)
    guesses = [(language, guess(text)) for language, texts in SUPPORTED.items() for text in texts]
    assert not [own for own in guesses if own[1].other], "such a text would be refused"
    assert sum(own.language == language for language, own in guesses) >= 0.95 * len(guesses)


def test_no_text_in_another_language_is_taken_for_a_supported_one() -> None:
    guesses = [guess(text) for texts in OTHERS.values() for text in texts]
    assert {own.language for own in guesses} == {UNKNOWN}
    assert sum(own.other for own in guesses) >= 0.8 * len(guesses), "recognised as another language"
    for texts in OTHERS.values():
        assert guess(" ".join(texts)) == Guess(UNKNOWN, other=True)


def test_numbers_names_and_codes_are_never_taken_for_another_language() -> None:
    for text in UNDECIDABLE:
        assert not guess(text).other


def test_the_guess_is_the_same_in_every_thread() -> None:
    alone = [guess(text) for text in TEXTS]
    with ThreadPoolExecutor(4) as threads:
        for own in threads.map(lambda _: [guess(text) for text in TEXTS], range(8)):
            assert own == alone


def test_a_long_text_is_read_in_samples_of_all_its_parts() -> None:
    german, swedish = (" ".join(texts) for texts in (SUPPORTED["de"], OTHERS["sv"]))
    assert guess(german * 2_000).language == "de"
    assert guess("Hi. " + swedish * 2_000) == Guess(UNKNOWN, other=True)
    assert guess("x" * 1_000_000).language == UNKNOWN
    assert guess("\u202e" * 5_000 + "🙂" * 5_000) == Guess(UNKNOWN)


def test_capitals_and_line_breaks_do_not_matter() -> None:
    text = "PŁATNE W CIĄGU TRZYDZIESTU DNI\nPROSZĘ PODAĆ NUMER FAKTURY"
    assert guess(text) == guess(text.lower()) == Guess("pl")


def test_a_policy_decides_about_other_languages_alone() -> None:
    refusing = MaskPolicy(unknown_language="refuse")
    assert language_of("Fakturan är fortfarande obetald, kan du kontrollera det?", refusing) is None
    assert language_of("Fakturan är fortfarande obetald, kan du kontrollera det?", MaskPolicy()) == UNKNOWN
    assert language_of("Anna, 12:30?", refusing) == UNKNOWN
    japanese = OTHERS["ja"][0]
    assert language_of(japanese, refusing) is None
    assert language_of(japanese, MaskPolicy(language="de", unknown_language="refuse")) == "de"
