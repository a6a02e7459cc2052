"""Own recognisers in a policy: what is masked, what an allow list suppresses, and long texts."""

import unicodedata
from typing import Any

import pytest
from tiers import cells

from core.errors import InvalidInput, RecogniserFailed
from core.text import mask_entity
from core.text.mask_entity import Tagged
from core.text.masks import Recognised, WindowFinds, join
from core.text.own_recognisers import patterns
from core.text.own_recognisers.definition import Definition, OwnReference, RecogniserFile
from core.text.own_recognisers.patterns import FINDS_MAX
from core.text.own_recognisers.recogniser import ALLOWED, BELOW_THRESHOLD, OwnRecogniser, search, try_out
from core.text.policy import MaskPolicy
from core.text.sanitize import sanitize
from core.text.segment import visible
from core.text.windows import windows


def policy_of(*definitions: Definition, **members: Any) -> MaskPolicy:
    own = tuple(
        OwnReference(f"own-{number}", each.entity, RecogniserFile("", "", b"", ""))
        for number, each in enumerate(definitions)
    )
    return MaskPolicy(own=own, **members)


def recognised(
    text: str, policy: MaskPolicy, *definitions: Definition, names: tuple[tuple[int, int, str, float], ...] = ()
) -> Recognised:
    ready = [OwnRecogniser(each) for each in definitions]
    text = visible(text)
    parts = [text[window.start : window.end] for window in windows(text)]
    finds = [WindowFinds(mask_entity.search(part, policy), None, search(part, ready, policy)) for part in parts]
    found = join(text, policy, finds)
    tagged = Tagged(text, frozenset({"PERSON", "LOCATION"}), names)
    return Recognised(found.patterns, tagged, own=found.own)


def masked(
    text: str,
    *definitions: Definition,
    fill: str = "class_marker",
    names: tuple[tuple[int, int, str, float], ...] = (),
    **members: Any,
) -> str:
    policy = policy_of(*definitions, **members)
    return sanitize(text, policy, fill, recognised=recognised(text, policy, *definitions, names=names)).text


CODE = Definition("PROJECT_CODE", patterns=(r"PX-\d{4}",))


def test_patterns_and_terms_are_masked_beside_the_default_entities() -> None:
    own = Definition("PROJECT_CODE", patterns=(r"PX-\d{4}",), deny=("Blue Falcon",))
    text = "PX-1234 and blue\nfalcon belong to jo@example.org."
    assert masked(text, own) == "[PROJECT_CODE] and [PROJECT_CODE] belong to [EMAIL_ADDRESS]."
    assert masked(text, own, entities=("PROJECT_CODE",)).endswith("jo@example.org.")
    assert masked(text, own, entities=("IBAN_CODE", "PROJECT_CODE")).endswith("jo@example.org.")


def test_a_weak_pattern_counts_near_a_context_word_alone() -> None:
    weak = Definition("ORDER_NUMBER", patterns=(r"\d{6}",), context=("order", "Bestellung"), score=0.2)
    far = "x" * 61
    assert masked("Order 123456", weak) == "Order [ORDER_NUMBER]"
    assert masked("BESTELLUNG: 123456", weak) == "BESTELLUNG: [ORDER_NUMBER]"
    assert masked("123456 is the order", weak) == "[ORDER_NUMBER] is the order"
    assert masked(f"order {far} 123456", weak) == f"order {far} 123456"
    assert masked("reorder 123456", weak) == "reorder 123456"
    assert masked("123456", weak, thresholds=(("ORDER_NUMBER", 0.2),)) == "[ORDER_NUMBER]"
    repeated = f"order 123456 {far} {far} 123456"
    assert "123456" not in masked(repeated, weak), "a string that is masked once is masked everywhere"


def test_a_threshold_applies_to_patterns_and_never_to_the_deny_list() -> None:
    own = Definition("PROJECT_CODE", patterns=(r"PX-\d{4}",), deny=("Falcon",), score=0.5)
    assert masked("PX-1234 Falcon", own, thresholds=(("PROJECT_CODE", 1.0),)) == "PX-1234 [PROJECT_CODE]"


def test_a_type_of_the_table_can_be_extended() -> None:
    own = Definition("PHONE_NUMBER", patterns=(r"ext\. \d{3}",))
    assert masked("Call ext. 123.", own) == "Call [PHONE_NUMBER]."
    assert masked("Call ext. 123.", own, entities=("IBAN_CODE",)) == "Call [PHONE_NUMBER]."


def test_an_allow_list_keeps_what_lies_within_a_term_and_nothing_longer() -> None:
    allow = Definition(allow=("Max Planck Institute", "info@example.org", "Berlin", "PX-0000"))
    text = "Max Planck Institute, Max Planck, Berlin, Berlin Mitte, info@example.org, x.info@example.org, PX-0000"
    names = tuple(
        (start, start + len(name), kind, 0.9)
        for name, kind, start in (
            ("Max Planck", "PERSON", 0), ("Max Planck", "PERSON", text.index("Max Planck,")),
            ("Berlin", "LOCATION", text.index("Berlin,")), ("Berlin Mitte", "LOCATION", text.index("Berlin Mitte")),
        )
    )  # fmt: skip
    entities = ("PERSON", "LOCATION", "EMAIL_ADDRESS")
    assert masked(text, CODE, allow, names=names, entities=entities) == (
        "Max Planck Institute, [PERSON], Berlin, [LOCATION], info@example.org, [EMAIL_ADDRESS], PX-0000"
    )


def test_a_find_across_two_allowed_terms_is_masked() -> None:
    allow = Definition(allow=("New York", "York City"))
    assert masked("New York City", allow, names=((0, 13, "LOCATION", 0.9),), entities=("LOCATION",)) == "[LOCATION]"


def test_a_deny_list_is_not_suppressed_by_an_allow_list() -> None:
    deny, allow = Definition("PROJECT_CODE", deny=("Falcon",)), Definition(allow=("falcon", "Blue Falcon"))
    assert masked("Blue Falcon", deny, allow) == "Blue [PROJECT_CODE]"


def test_other_techniques_do_not_read_an_allow_list() -> None:
    allow = Definition(allow=("zworykling",))
    assert masked("the zworykling", allow, techniques=("entity", "vocabulary")) == "the [WORD]"


def test_an_own_type_never_merges_and_takes_precedence_over_words() -> None:
    own = Definition("PROJECT_CODE", deny=("zworykling",))
    assert masked("zworykling qwertzu", own, techniques=("entity", "all")) == "[PROJECT_CODE] [WORD]"


def test_surrogates_of_an_own_type_keep_the_shape() -> None:
    text = "PX-1234, PX-1234 and PX-9876"
    filled = masked(text, CODE, fill="surrogate").replace(" and", ",").split(", ")
    assert filled[0] == filled[1] != filled[2]
    assert all(len(each) == 7 and each[2] == "-" and each[3:].isdigit() for each in filled)
    assert not set(filled) & {"PX-1234", "PX-9876"}


def test_a_policy_whose_recognisers_have_not_run_is_an_error() -> None:
    with pytest.raises(RecogniserFailed):
        sanitize("PX-1234", policy_of(CODE), "class_marker")
    with pytest.raises(RecogniserFailed):
        join("PX-1234", policy_of(CODE), [WindowFinds((), None)])


def test_types_that_no_recogniser_has_are_refused() -> None:
    for members in ({"entities": ("OTHER_CODE",)}, {"thresholds": (("OTHER_CODE", 0.5),)}, {"techniques": ("all",)}):
        with pytest.raises(InvalidInput):
            policy_of(CODE, **members)


def test_more_finds_than_a_window_may_have_are_refused() -> None:
    """Finds that mask nothing count as well: each of them may have read the rest of the window."""
    for letter, whole_words, finds in [
        ("a", False, FINDS_MAX + 1), ("-", True, 3 * FINDS_MAX), ("-", False, 3 * FINDS_MAX),
    ]:  # fmt: skip
        own = Definition("LETTER", patterns=(letter,), whole_words=whole_words)
        with pytest.raises(InvalidInput):
            search(letter * finds, [OwnRecogniser(own)], policy_of(own))


@pytest.mark.parametrize("pattern", ["-(?s:.*y7)?", "absent"])
@pytest.mark.parametrize("recognisers", [1, 3])
def test_a_window_that_takes_too_long_is_refused(
    pattern: str, recognisers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is that of all recognisers together, and a search that finds nothing takes some as well."""
    clock = iter(range(100))
    monkeypatch.setattr(patterns.time, "thread_time", lambda: next(clock) * 0.1)
    own = Definition("DASH", patterns=(pattern,) * (6 // recognisers))
    with pytest.raises(InvalidInput):
        search("-", [OwnRecogniser(own)] * recognisers, policy_of(own))


@pytest.mark.parametrize("filler", cells(["wörd ", "word ", "x", "日"]))
def test_a_long_text_is_masked_as_a_short_one(filler: str) -> None:
    """Finds and context words lie at every place relative to the edges of the windows."""
    own = Definition(
        "PROJECT_CODE", patterns=(r"PX-\d{4}", r"\d{6}"), deny=("Blue Fälcon",), context=("order",), score=0.2
    )
    allow = Definition(allow=("PX-0000",))
    piece = (
        f"{filler * 150}, order PX-1234, {filler * 20}, order PX-0000, {unicodedata.normalize('NFD', 'blue fälcon')}; "
    )
    count = 40_000 // len(piece)
    text = piece * count
    assert len(windows(text)) > 2
    once = masked(piece, own, allow)
    assert once.count("[PROJECT_CODE]") == 2
    assert masked(text, own, allow) == once * count


def test_a_long_text_without_spaces_is_read() -> None:
    own = Definition("PROJECT_CODE", patterns=(r"[a-z]{5}\d",), deny=("aaaa", "b" * 200), whole_words=False)
    text = "c" * 200_000 + "b" * 200 + "c" * 200_000
    alone = ("PROJECT_CODE",)
    assert masked(text, own, entities=alone) == "c" * 200_000 + "[PROJECT_CODE]" + "c" * 200_000
    assert masked("aaaa" * 25_000, own, entities=alone) == "[PROJECT_CODE]"


def test_a_draft_shows_its_finds_and_why_they_are_not_masked() -> None:
    own = OwnRecogniser(
        Definition(
            "ORDER_NUMBER", patterns=(r"\d{6}",), deny=("Falcon",), allow=("000000",), context=("order",), score=0.2
        )
    )
    far = "x" * 80
    text = f"Fal\u200bcon order 12\u200b3456, 000000 {far} 777777"
    result = try_out(text, own, threshold=0.4)
    assert [(text[find.start : find.end], find.pattern, find.context, find.suppressed_by) for find in result.finds] == [
        ("Fal\u200bcon", None, None, None), ("12\u200b3456", 0, True, None), ("000000", 0, True, ALLOWED),
        ("777777", 0, False, BELOW_THRESHOLD),
    ]  # fmt: skip
    assert [find.score for find in result.finds] == pytest.approx([1.0, 0.55, 0.55, 0.2])


def test_a_draft_agrees_with_a_request() -> None:
    own = Definition("PROJECT_CODE", patterns=(r"PX-\d{4}",), deny=("Falcon",), allow=("PX-0000",))
    text = "PX-1234 Falcon PX-0000 " * 2_000
    found = try_out(text, OwnRecogniser(own), threshold=0.4)
    assert found.total == 6_000
    assert len(found.finds) == 1_000
    shown = [find for find in found.finds if find.suppressed_by is None]
    head = text[: found.finds[-1].end]
    assert masked(head, own).count("[PROJECT_CODE]") == len(shown)
