"""An explanation: where finds are in the text as sent, what found them, and which were suppressed by which rule."""

import pytest

from core.errors import InvalidInput
from core.text.mask_entity import Tagged
from core.text.mask_words import AllowLists
from core.text.masks import Recognised
from core.text.policy import (
    BELOW_THRESHOLD,
    NO_CONTEXT,
    OVERLAPPED,
    MaskPolicy,
    Sanitised,
    SanitizeTask,
    SuppressedFinds,
)
from core.text.sanitize import fill_masks, finds_only, inspect
from core.text.segment import SentText, visible

LISTS = AllowLists()
CARD = "4111 1111 1111 1111"


def explained(text: str, policy: MaskPolicy, *, finds_max: int = 1_000, tagged: Tagged | None = None) -> Sanitised:
    found = inspect(text, policy, LISTS, Recognised(None, tagged), explain=finds_max)
    return fill_masks(found, policy, "class_marker", LISTS)


def test_a_find_is_reported_with_its_place_in_the_text_as_sent() -> None:
    text = "😀 Card 4111\u200b1111 1111\u00ad\u200d1111, jane\u200b.roe@acme-corp.com, jane.roe@acme-corp.com."
    result = explained(text, MaskPolicy(entities=("CREDIT_CARD", "EMAIL_ADDRESS")))
    reported = [(text[start:end], recogniser) for start, end, _, recogniser in result.origins]
    assert reported == [
        ("4111\u200b1111 1111\u00ad\u200d1111", "credit_card"),
        ("jane\u200b.roe@acme-corp.com", "email_address"),
        ("jane.roe@acme-corp.com", "email_address"),
    ]
    assert len(result.origins) == len(result.spans)
    assert all(0.5 <= origin.score <= 1 for origin in result.origins)
    assert [origin.start for origin in result.origins[1:]] == [result.origins[1].start, result.origins[-1].start]


def test_places_of_visible_text_map_to_the_text_as_sent() -> None:
    for text in ("", "plain", "a\u200bb", "é\u200bb\u200b", "a\u200b\u200bb\u00adc d", "\u200ba\u2060b"):
        shown, sent = visible(text), SentText.of(text)
        for start in range(len(shown)):
            for end in range(start + 1, len(shown) + 1):
                first, last = sent.region(start, end)
                assert visible(text[first:last]).strip("\u200b") == shown[start:end].strip("\u200b")
                assert text[first] == shown[start]
                assert text[last - 1] == shown[end - 1]


def test_a_number_without_a_context_word_is_reported_as_such() -> None:
    policy = MaskPolicy(entities=("US_PASSPORT",))
    (find,) = explained("My number is A12345678.", policy).suppressed.finds
    assert (find.type, find.rule, find.by) == ("US_PASSPORT", NO_CONTEXT, None)
    assert find.recogniser == "presidio.UsPassportRecognizer"
    assert not explained("My passport is A12345678.", policy).suppressed.finds


def test_a_threshold_that_a_context_word_would_not_reach_is_reported_as_such() -> None:
    policy = MaskPolicy(entities=("US_PASSPORT",), thresholds=(("US_PASSPORT", 0.95),))
    for text in ("My passport is A12345678.", "My number is A12345678."):
        assert [find.rule for find in explained(text, policy).suppressed.finds] == [BELOW_THRESHOLD]


def test_a_find_inside_a_longer_one_is_reported_with_what_covers_it() -> None:
    text = "See https://acme-corp.com/u/jane.roe@acme-corp.com today."
    result = explained(text, MaskPolicy(entities=("EMAIL_ADDRESS", "URL")))
    assert [span.type for span in result.spans] == ["URL"]
    covered = [find for find in result.suppressed.finds if find.rule == OVERLAPPED]
    assert ("EMAIL_ADDRESS", "URL") in {(find.type, find.by) for find in covered}


def test_a_name_that_a_pattern_overlaps_or_that_scores_too_little_is_reported() -> None:
    text = f"Anna {CARD} and Bert."
    found = ((0, 5 + len(CARD), "PERSON", 0.9), (text.index("Bert"), text.index("Bert") + 4, "PERSON", 0.6))
    policy = MaskPolicy(entities=("CREDIT_CARD", "PERSON"), thresholds=(("PERSON", 0.8),))
    result = explained(text, policy, tagged=Tagged(text, frozenset({"PERSON"}), found))
    assert result.text == "[PERSON] [CREDIT_CARD] and Bert."
    reported = {(text[f.start : f.end], f.type, f.rule, f.by, f.recogniser) for f in result.suppressed.finds}
    assert (f"Anna {CARD}", "PERSON", OVERLAPPED, "CREDIT_CARD", "tagger") in reported
    assert ("Bert", "PERSON", BELOW_THRESHOLD, None, "tagger") in reported


def test_what_is_kept_of_many_suppressed_finds_scores_highest() -> None:
    text = " ".join(f"A{number:08d}" for number in range(100, 600)) + " " + CARD
    policy = MaskPolicy(entities=("US_PASSPORT", "US_BANK_NUMBER", "CREDIT_CARD"))
    everything = explained(text, policy, finds_max=10_000).suppressed
    few = explained(text, policy, finds_max=10).suppressed
    assert everything.left_out == 0
    assert len(few.finds) == 10
    assert few.left_out == len(everything.finds) - 10
    assert set(few.finds) <= set(everything.finds)
    assert min(find.score for find in few.finds) >= max(find.score for find in set(everything.finds) - set(few.finds))
    assert [find.start for find in few.finds] == sorted(find.start for find in few.finds)
    assert explained(text, policy, finds_max=0).suppressed == SuppressedFinds((), len(everything.finds))


def test_an_explanation_does_not_change_what_is_masked() -> None:
    text = f"Jane\u200b Roe, {CARD}, 12 New\u00adton, jane@acme-corp.com; " * 50
    for techniques in (("entity",), ("entity", "vocabulary"), ("all",)):
        policy = MaskPolicy(techniques=techniques)
        plain, reported = inspect(text, policy, LISTS), inspect(text, policy, LISTS, explain=5)
        assert (plain.text, plain.masks) == (reported.text, reported.masks)


def test_a_dry_run_has_the_finds_and_no_text() -> None:
    text = f"Card {CARD}."
    found = inspect(text, MaskPolicy(), LISTS, explain=10)
    result = finds_only(found)
    assert result.text == ""
    assert [(span.start, span.end, span.type) for span in result.spans] == [(0, 0, "CREDIT_CARD")]
    assert result.origins[0][:2] == (5, 5 + len(CARD))
    assert result.masked_tokens == fill_masks(found, MaskPolicy(), "marker", LISTS).masked_tokens


def test_a_fill_with_a_price_is_not_explained() -> None:
    for fields in [{"explain": 10}, {"dry_run": True}]:
        for fill in ("dp", "metric_dp"):
            with pytest.raises(InvalidInput):
                SanitizeTask("text", MaskPolicy(), fill, 10**9, **fields)
