"""What a tagger found becomes masks, and what cannot be a find is an error."""

import pytest

from core.errors import RecogniserFailed
from core.text.mask_entity import Tagged
from core.text.masks import Recognised
from core.text.policy import MaskPolicy
from core.text.sanitize import sanitize

TEXT = "Maria left Lisbon"
TYPES = frozenset({"PERSON", "LOCATION"})
FOUND = ((0, 5, "PERSON", 0.9), (11, 17, "LOCATION", 0.6))
NAMES = MaskPolicy(entities=("PERSON", "LOCATION"))


RIGHT = Tagged(TEXT, TYPES, FOUND)


def run(policy: MaskPolicy = NAMES, tagged: Tagged | None = RIGHT, text: str = TEXT) -> str:
    return sanitize(text, policy, "class_marker", recognised=Recognised(None, tagged)).text


def shown(text: str, kind: str, *places: tuple[int, int], beside: tuple[str, ...] = ()) -> str:
    """The text with what a tagger found of a type, and with the finds of patterns of the types `beside`."""
    found = tuple((*place, kind, 0.9) for place in places)
    return run(MaskPolicy(entities=(kind, *beside)), Tagged(text, frozenset({kind, *beside}), found), text)


def test_finds_of_requested_types_over_their_threshold_are_masked():
    assert run() == "[PERSON] left [LOCATION]"
    assert run(MaskPolicy(entities=("PERSON",))) == "[PERSON] left Lisbon"
    assert run(MaskPolicy(entities=NAMES.entities, thresholds=(("LOCATION", 0.7),))) == "[PERSON] left Lisbon"
    assert run(MaskPolicy(entities=("URL",)), tagged=None) == TEXT


def test_a_text_that_was_not_rightly_read_is_never_released():
    for tagged in [
        None, Tagged(TEXT, frozenset({"PERSON"}), FOUND[:1]), Tagged(TEXT.upper(), TYPES, FOUND),
        Tagged(TEXT, TYPES, ((0, 99, "PERSON", 0.9),)), Tagged(TEXT, TYPES, ((5, 5, "PERSON", 0.9),)),
        Tagged(TEXT, TYPES, ((-1, 5, "PERSON", 0.9),)), Tagged(TEXT, TYPES, ((0, 5, "PERSON", float("nan")),)),
        Tagged(TEXT, TYPES, ((0, 5, "ORGANIZATION", 0.9),)),
    ]:  # fmt: skip
        with pytest.raises(RecogniserFailed) as caught:
            run(tagged=tagged)
        assert "Maria" not in repr(caught.value) + repr(vars(caught.value)) + repr(tagged)


def test_a_pattern_keeps_its_place_and_the_rest_of_a_name_around_it_is_masked():
    text = "Call 4111 1111 1111 1111 or jo@example.org Lisbon . . now"
    masked = shown(text, "LOCATION", (0, 53), beside=("CREDIT_CARD", "EMAIL_ADDRESS"))
    assert masked == "[LOCATION] [CREDIT_CARD] [LOCATION] [EMAIL_ADDRESS] [LOCATION] . . now"


def test_a_name_of_several_words_and_its_words_are_masked_wherever_they_stand():
    text = "Wren Castellanos wrote. Ask Castellanos, Wren, wren and WREN CASTELLANOS: Wren Castellanos! A wrens nest."
    masked = "[PERSON] wrote. Ask [PERSON], Wren, wren and WREN CASTELLANOS: [PERSON]! A wrens nest."
    assert shown(text, "PERSON", (0, 16)) == masked
    assert shown("Wren Castellanos, called Wren", "PERSON", (0, 16)) == "[PERSON], called [PERSON]"
    assert shown("Carys Hill came. Hill, Carys. The hill.", "PERSON", (0, 10)) == (
        "[PERSON] came. Hill, [PERSON]. The hill."
    )
    assert shown("Carys came. Carys left.", "PERSON", (0, 5)) == "[PERSON] came. Carys left."


def test_an_ordinary_word_of_the_language_alone_is_a_name_only_from_a_higher_score_on():
    text = "We were told that the Support team in Sales answers questions about every invoice before Friday."
    for word, score, masked in [
        ("Support", 0.55, False), ("Support", 0.65, True), ("answers questions", 0.4, True), ("Sales", 0.55, False),
    ]:  # fmt: skip
        at = text.index(word)
        found = Tagged(text, TYPES, ((at, at + len(word), "PERSON", score),))
        assert (run(tagged=found, text=text) != text) is masked, (word, score)
    german = "Nächsten Samstag ist Flohmarkt auf dem Schulhof, und Anna bringt den Kuchen für alle Kinder mit."
    for word, masked in [("Flohmarkt", False), ("Anna", True)]:  # a given name may be as frequent
        at = german.index(word)
        found = Tagged(german, TYPES, ((at, at + len(word), "PERSON", 0.4),))
        assert (run(tagged=found, text=german) != german) is masked, word


def test_the_numbers_of_an_address_are_masked_with_it():
    for text, place, masked in [
        ("Send it to Baker Lane, 10115 please", "Baker Lane", "Send it to [LOCATION] please"),
        ("at 17151 24 Crown St\nApt. 658, Oslo", "24 Crown St", "at [LOCATION], Oslo"),
        ("PO Box 4411, 12 Hill Rd 8000", "12 Hill Rd", "[LOCATION]"),
        ("In 2012 Oslo grew by 30000 people", "Oslo", "In 2012 [LOCATION] grew by 30000 people"),
        ("Oslo 2024 was cold, Oslo 12.500 warm", "Oslo", "[LOCATION] 2024 was cold, Oslo 12.500 warm"),
        ("Postbus 123, 1000 AC Delft", "Delft", "[LOCATION]"),
        ("Skrytka pocztowa 12, 80-958 Sopot.", "Sopot", "[LOCATION]."),
        ("Leeds LS1 4AP, 114 55 Kiruna, Kiruna 2024 EU", "Leeds", "[LOCATION], 114 55 Kiruna, Kiruna 2024 EU"),
        ("see 114 55 Kiruna", "Kiruna", "see [LOCATION]"),
        ("paid 14 Hill Rd 300 EUR", "14 Hill Rd", "paid [LOCATION] EUR"),
        ("14 Hill Rd 300\u20ac", "14 Hill Rd", "[LOCATION] 300\u20ac"),
    ]:
        start = text.index(place)
        assert shown(text, "LOCATION", (start, start + len(place))) == masked


def test_a_credential_that_a_tagger_and_a_pattern_find_is_masked_once():
    for end in [20, 22, 26]:
        masked = shown("the passphrase is Xk9$mQ2! until noon", "PASSWORD", (18, end))
        assert masked == "the passphrase is [PASSWORD] until noon"


def test_a_credential_of_a_tagger_is_masked_where_no_pattern_finds_one_and_has_the_type_of_one_that_does():
    text = "try Xk9$mQ2! or gr\u00fcn"
    assert shown(text, "PASSWORD") == text
    assert shown(text, "PASSWORD", (4, 12)) == "try [PASSWORD] or gr\u00fcn"
    text = "use AKIAQ7XJ2MZ4KT6WPLND, or hunter2"
    assert shown(text, "PASSWORD", (4, 24), (29, 36), beside=("SECRET",)) == "use [SECRET], or [PASSWORD]"


def test_what_separates_a_name_and_a_value_stays():
    for mark in [",", "<", ";", "|", " - ", "*,"]:
        text = f"Anna Berg{mark}anna@example.org"
        masked = shown(text, "PERSON", (0, len(f"Anna Berg{mark}anna")), beside=("EMAIL_ADDRESS",))
        assert masked == f"[PERSON]{mark}[EMAIL_ADDRESS]"


def test_a_credential_of_the_tagger_is_no_placeholder_shared_account_or_short_number():
    for kind, value, masked in [
        ("PASSWORD", "4711", True), ("PASSWORD", "137", False), ("PASSWORD", "<your-password>", False),
        ("SECRET", "None", False), ("USERNAME", "root", False), ("USERNAME", "kweber81", True),
    ]:  # fmt: skip
        text = f"it said {value} again"
        assert shown(text, kind, (8, 8 + len(value))) == (f"it said [{kind}] again" if masked else text)


def test_a_part_of_an_address_is_no_password():
    text = "by jane.roe@acme-corp.com or jane:roe@acme-corp.com"
    assert shown(text, "PASSWORD", (8, 11), (34, 37)) == text.replace("jane:roe", "jane:[PASSWORD]")
