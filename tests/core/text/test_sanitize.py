"""Fills and the shape of the result."""

import pickle
import re

import pytest

from core.errors import TaskFailed
from core.text import fill_surrogate
from core.text.policy import FILLS, MaskPolicy
from core.text.recognisers.numbers import iban_valid, luhn
from core.text.sanitize import sanitize

ALL = MaskPolicy(techniques=("entity", "vocabulary", "allow_list"))
TEXT = (
    "Zaphod Beeblebrox 🎉 wrote to jo.doe@corp.internal, then jo.doe@corp.internal; card 4111 1111 1111 1111, "
    "IBAN DE89 3704 0044 0532 0130 00, ssn 536-22-8145, call +44 20 7946 0958, host 10.1.2.3, "
    "see https://intra.corp.internal/x?u=jo. Zaphod Beeblebrox paid 1742."
)
ORIGINALS = (
    *("Zaphod", "Beeblebrox", "jo.doe", "corp.internal", "4111 1111", "DE89 3704", "536-22-8145"),
    *("20 7946 0958", "10.1.2.3", "1742"),
)


def surrogates(text: str, policy: MaskPolicy = ALL) -> list[tuple[str, str]]:
    result = sanitize(text, policy, "surrogate")
    return [(span.type, result.text[span.start : span.end]) for span in result.spans]


def test_a_text_without_masks_comes_back_unchanged():
    for fill in list(FILLS):
        for text in ["", "   \n", "the cat sat on the mat.", "🎉 … —"]:
            policy = MaskPolicy(techniques=("entity", "vocabulary"))
            result = sanitize(text, policy, fill)
            assert (result.text, list(result.spans), result.masked_tokens) == (text, [], 0)


@pytest.mark.parametrize("fill", list(FILLS))
def test_offsets_point_at_the_fill_and_the_rest_is_kept(fill):
    result = sanitize(TEXT, ALL, fill)
    pieces, read = [], 0
    for span in result.spans:
        assert read <= span.start < span.end
        pieces.append(result.text[read : span.start])
        read = span.end
        shown = result.text[span.start : span.end]
        if fill == "marker":
            assert shown == "[MASK]"
        if fill == "class_marker":
            assert shown == f"[{span.type}]"
    pieces.append(result.text[read:])
    assert re.fullmatch(".+?".join(map(re.escape, pieces)), TEXT, re.DOTALL)
    assert 0 < result.masked_tokens < result.tokens


@pytest.mark.parametrize("fill", list(FILLS))
def test_no_original_is_in_the_result(fill):
    result = sanitize(TEXT, ALL, fill)
    for shown in (repr(result), result.text, pickle.dumps(result).decode("latin-1")):
        assert not [each for each in ORIGINALS if each in shown]


def test_the_same_string_gets_the_same_surrogate_and_another_one_in_another_call():
    first, second = surrogates(TEXT), surrogates(TEXT)
    mails = [value for kind, value in first if kind == "EMAIL_ADDRESS"]
    assert len(mails) == 2
    assert len(set(mails)) == 1
    assert first != second


def test_surrogates_are_valid_and_from_safe_ranges():
    for _ in range(20):
        value = dict(surrogates(TEXT))
        assert re.fullmatch(r"[a-z]+\.[a-z]+\d*@example\.(com|org|net)", value["EMAIL_ADDRESS"])
        assert luhn(value["CREDIT_CARD"].replace(" ", ""))
        assert iban_valid(value["IBAN_CODE"].replace(" ", ""))
        assert value["US_SSN"].startswith("666-")
        assert re.fullmatch(r"\+44 20 7946 0\d{3}", value["PHONE_NUMBER"])
        assert value["IP_ADDRESS"].startswith(("192.0.2.", "198.51.100.", "203.0.113."))
        assert re.fullmatch(r"4000 00\d\d \d{4} \d{4}", value["CREDIT_CARD"])
        assert re.fullmatch(r"https://[a-z]{6}\.example\.(com|org|net)/[a-z]\?[a-z]=[a-z]{2}", value["URL"])


def test_surrogates_are_recognised_as_their_type_again():
    for kind, value in surrogates(TEXT, MaskPolicy()):
        assert [span.type for span in sanitize(f"say {value} now", MaskPolicy(), "marker").spans] == [kind]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("MAC_ADDRESS", "00:1B:44:11:3A:B7"),
        ("CRYPTO", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
        ("UK_NHS", "nhs 943 476 5919"),
        ("US_ITIN", "912-70-1234"),
        ("IP_ADDRESS", "2001:db8:85a3::8a2e:370:7334"),
        ("UUID", "6f1c2b1e-9d7a-4c55-8f1b-2a3c4d5e6f70"),
    ],
)
def test_rarer_types_have_fakes_of_their_own(kind, text):
    policy = MaskPolicy(entities=(kind,))
    result = sanitize(text, policy, "surrogate")
    assert [span.type for span in result.spans] == [kind]
    assert result.text != text
    if kind not in ("UK_NHS",):
        assert sanitize(result.text, policy, "marker").text == "[MASK]"


def test_a_surrogate_is_no_masked_string_of_the_document():
    taken = " ".join(f"192.0.2.{last}" for last in range(1, 255))
    taken += " " + " ".join(f"198.51.100.{last}" for last in range(1, 255))
    for kind, value in surrogates(taken, MaskPolicy()):
        assert kind == "IP_ADDRESS"
        assert value not in taken.split()


def test_a_document_that_masks_the_safe_names_themselves_still_ends():
    text = "example Example jo@example.com " + " ".join(f"{digit}, " for digit in range(10))
    result = sanitize(text, MaskPolicy(techniques=("entity", "allow_list"), allow_list="general"), "surrogate")
    for span in result.spans:
        shown = result.text[span.start : span.end]
        assert shown not in {str(digit) for digit in range(10)}


def test_a_fill_that_only_repeats_the_original_is_an_error(monkeypatch):
    monkeypatch.setattr(fill_surrogate, "fake", lambda kind, original, drawing: original)
    with pytest.raises(TaskFailed) as caught:
        sanitize("Write to jo@example.org", MaskPolicy(), "surrogate")
    assert "jo@" not in repr(caught.value)


def test_unicode_before_a_mask_does_not_shift_it():
    result = sanitize("🎉é\u0301 漢字 jo@example.org 終", MaskPolicy(), "class_marker")
    assert result.text == "🎉é\u0301 漢字 [EMAIL_ADDRESS] 終"
    span = result.spans[0]
    assert result.text[span.start : span.end] == "[EMAIL_ADDRESS]"
