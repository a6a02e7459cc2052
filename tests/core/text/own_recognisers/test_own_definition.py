"""Which definitions of recognisers are refused, and that an error repeats nothing of them."""

from typing import Any

import pytest
from table_kit import rows

from core.errors import InvalidInput, RecogniserBroken
from core.text.own_recognisers.definition import Definition, RecogniserLimits
from core.text.own_recognisers.recogniser import check, ready

SMALL = RecogniserLimits(
    patterns_max=2, pattern_chars_max=30, terms_max=3, term_chars_max=10, terms_chars_max=25, context_max=1
)


def refused(limits: RecogniserLimits = SMALL, **members: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check(Definition(**{"entity": "PROJECT_CODE"} | members), limits)
    return caught.value


def test_a_definition_that_cannot_be_used_is_refused_without_echo() -> None:
    for members, field in [
        ({}, "patterns"), ({"entity": "", "deny": ("zworykin",)}, "entity"),
        ({"entity": "project_code", "deny": ("zworykin",)}, "entity"),
        ({"entity": "X", "deny": ("zworykin",)}, "entity"), ({"entity": "CODE_", "deny": ("zworykin",)}, "entity"),
        ({"entity": "A]B", "deny": ("zworykin",)}, "entity"), ({"entity": "WORD", "deny": ("zworykin",)}, "entity"),
        ({"patterns": ("a", "b", "c")}, "patterns"), ({"patterns": ("z" * 31,)}, "patterns.0"),
        ({"patterns": ("a", "")}, "patterns.1"), ({"deny": ("a", "b"), "allow": ("c", "d")}, "deny"),
        ({"deny": ("zworykinsky",)}, "deny.0"), ({"deny": ("zworykin1", "zworykin2", "zworykin3")}, "deny"),
        ({"deny": ("zworykin", "...")}, "deny.1"), ({"deny": ("\u0301zworykin",)}, "deny.0"),
        ({"deny": ("ok", "zwo\0rykin")}, "deny.1"), ({"deny": ("Zworykin",), "allow": ("zWORYKIN",)}, "allow"),
        ({"deny": ("zworykin",), "context": ("order",)}, "context"),
        ({"patterns": ("zw",), "context": ("order", "number")}, "context"),
    ]:  # fmt: skip
        error = refused(**members)
        assert error.field == field
        assert "zworyk" not in error.detail


def test_an_error_of_a_pattern_names_its_place_and_repeats_nothing() -> None:
    for pattern, place in rows(r"""
        qq[z-a] | character 4 || qq(?<=q) | character 3 || qq\1 | character 3 || qüq\pX | character 4
        q)q(q | character 2 || qq** | character 3 || q{3,2} | character 2 || (qq | parenthesis is missing
        qq\ | backslash || [qq | bracket is missing || (?P<q!>q) | character 1
    """):
        error = refused(patterns=("ok", pattern))
        assert error.field == "patterns.1"
        assert place in error.detail
        assert "q" not in error.detail


def test_a_pattern_that_matches_the_empty_text_is_refused() -> None:
    for pattern in ["a*", "^", "$", "\\b", "\\B", "a|", "(?:x?)+$", "(?i)x{0,3}", "\\s*", "(?:a|\\d*)$"]:
        assert "empty" in refused(patterns=(pattern,)).detail


def test_a_pattern_that_needs_too_much_memory_is_refused() -> None:
    pattern = r"(?:\pL{1,60}\s){10}"
    assert "memory" in refused(patterns=(pattern,)).detail
    with pytest.raises(InvalidInput):
        check(Definition("CODE", patterns=(r"\pL{20}",), program_bytes_max=8_192), SMALL)
    check(Definition("CODE", patterns=(r"\pL{20}",)), SMALL)


def test_terms_that_end_with_one_another_are_limited() -> None:
    """The number of terms that end at one character bounds the time for a character of a text."""
    nested = tuple("a" * length for length in range(1, 18))
    check(Definition("CODE", deny=nested[:16], whole_words=False), RecogniserLimits())
    assert refused(RecogniserLimits(), deny=nested).field == "deny"


def test_a_stored_definition_is_read_again_and_a_damaged_one_is_refused() -> None:
    definition = Definition("CODE", patterns=("PX-\\d+",), deny=("Ünlü",), context=("order",), score=0.2)
    assert Definition.unpacked(definition.packed()) == definition
    for content in (b"", b"{}", b"[]", definition.packed()[:-3], b'{"entity": "CODE", "unknown": 1}'):
        with pytest.raises(RecogniserBroken):
            ready(content)


def test_the_repr_of_a_definition_shows_none_of_its_lists() -> None:
    assert "zworykin" not in repr(Definition("CODE", ("zworykin",), ("zworykin",), ("zworykin",), ("zworykin",)))
