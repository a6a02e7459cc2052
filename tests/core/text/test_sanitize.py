"""Fills and the shape of the result."""

import pickle
import re

from core.text.policy import FILLS, MaskPolicy
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


def test_offsets_point_at_the_fill_and_the_rest_is_kept():
    for fill in list(FILLS):
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


def test_no_original_is_in_the_result():
    for fill in list(FILLS):
        result = sanitize(TEXT, ALL, fill)
        for shown in (repr(result), result.text, pickle.dumps(result).decode("latin-1")):
            assert not [each for each in ORIGINALS if each in shown]


def test_surrogates_are_recognised_as_their_type_again():
    rarer = "00:1B:44:11:3A:B7, 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa, 912-70-1234, 2001:db8:85a3::8a2e:370:7334"
    policy = MaskPolicy(entities=("MAC_ADDRESS", "CRYPTO", "US_ITIN", "IP_ADDRESS", "UUID"))
    found = surrogates(f"{rarer}, 6f1c2b1e-9d7a-4c55-8f1b-2a3c4d5e6f70", policy)
    assert len(found) == 5
    for kind, value in found:
        assert sanitize(value, policy, "class_marker").text == f"[{kind}]"
    for kind, value in surrogates(TEXT, MaskPolicy()):
        assert [span.type for span in sanitize(f"say {value} now", MaskPolicy(), "marker").spans] == [kind]


def test_a_document_that_masks_the_safe_names_themselves_still_ends():
    text = "example Example jo@example.com " + " ".join(f"{digit}, " for digit in range(10))
    result = sanitize(text, MaskPolicy(techniques=("entity", "allow_list"), allow_list="general"), "surrogate")
    for span in result.spans:
        shown = result.text[span.start : span.end]
        assert shown not in {str(digit) for digit in range(10)}
