"""`POST /anonymize` beside Presidio's own anonymizer, version 2.2.366: the same places give the same text and items."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput
from service.presidio import replacing
from service.presidio.replacing import places_of, replaced, without_conflicts
from service.presidio.schemas import Anonymizer, Deanonymizer

TEXTS = st.text(alphabet="ab  \n.é漢🙂", min_size=0, max_size=24)
TYPES = ("PERSON", "LOCATION", "PHONE_NUMBER")
KEY = "0123456789abcdef"
OPERATORS: list[dict[str, Any]] = [
    {"type": "replace"}, {"type": "replace", "new_value": "<🙂>"}, {"type": "replace", "new_value": ""},
    {"type": "redact", "new_value": "not read"}, {"type": "keep"},
    {"type": "mask", "masking_char": "*", "chars_to_mask": 2, "from_end": True},
    {"type": "mask", "masking_char": "é", "chars_to_mask": 90, "from_end": False},
    {"type": "mask", "masking_char": "", "chars_to_mask": 1, "from_end": False},
    {"type": "mask", "masking_char": "#", "chars_to_mask": -4, "from_end": True},
    {"type": "hash", "salt": "a salt of 16 and more"}, {"type": "hash", "hash_type": "sha512", "salt": "é" * 8},
]  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]], dict[str, dict[str, Any]]]:
    text = draw(TEXTS)
    places = []
    for _ in range(draw(st.integers(0, 7))):
        start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        score = draw(st.sampled_from((0.2, 0.5, 0.5, 1.0)))
        places.append({"start": start, "end": end, "entity_type": draw(st.sampled_from(TYPES)), "score": score})
    named = draw(st.lists(st.sampled_from((*TYPES, "DEFAULT")), unique=True, max_size=4))
    return text, places, {name: draw(st.sampled_from(OPERATORS)) for name in named}


def theirs(text: str, places: list[dict[str, Any]], chosen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    from presidio_anonymizer import AnonymizerEngine
    from presidio_anonymizer.entities import OperatorConfig, RecognizerResult

    result = AnonymizerEngine().anonymize(
        text=text,
        analyzer_results=[RecognizerResult.from_json(each) for each in places],
        operators={name: OperatorConfig.from_json(dict(each)) for name, each in chosen.items()},
    )
    return {"text": result.text, "items": [each.to_dict() for each in result.items]}


def ours(text: str, places: list[dict[str, Any]], chosen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    parsed = {name: Anonymizer.model_validate(each) for name, each in chosen.items()}

    def operate(entity: str, found: str) -> tuple[str, str]:
        operator = replacing.anonymizer_of(parsed, entity)
        return replacing.replacement(operator, entity, found), operator.type

    regions = without_conflicts(text, places_of(places, field="analyzer_results", scored=True))
    result = replaced(text, regions, operate, field="analyzer_results", chars_max=100_000)
    return {"text": result.text, "items": list(result.items)}


def place(start: int, end: int, entity: str, score: float = 0.5) -> dict[str, Any]:
    return {"start": start, "end": end, "entity_type": entity, "score": score}


@settings(max_examples=400, deadline=None)
@given(cases())
@example(("ab ab", [place(0, 2, "PERSON"), place(3, 5, "PERSON")], {}))
@example(("ab \nab", [place(0, 2, "PERSON"), place(4, 6, "PERSON")], {}))
@example(("abababab", [place(0, 5, "PERSON"), place(3, 8, "LOCATION"), place(4, 5, "PHONE_NUMBER")], {}))
@example(("abab", [place(0, 2, "PERSON", 0.2), place(0, 2, "LOCATION", 0.2), place(0, 2, "PERSON", 1.0)], {}))
@example(("abab", [place(1, 1, "PERSON"), place(1, 3, "PERSON"), place(3, 3, "LOCATION")], {}))
def test_the_same_places_give_the_same_answer(
    case: tuple[str, list[dict[str, Any]], dict[str, dict[str, Any]]],
) -> None:
    assert ours(*case) == theirs(*case)


def test_each_decrypts_what_the_other_has_encrypted() -> None:
    from presidio_anonymizer import DeanonymizeEngine
    from presidio_anonymizer.entities import OperatorConfig, OperatorResult

    text, at = "Call Zoë 🙂 now", [place(5, 10, "PERSON")]
    sealed_ours = ours(text, at, {"PERSON": {"type": "encrypt", "key": KEY}})
    sealed_theirs = theirs(text, at, {"PERSON": {"type": "encrypt", "key": KEY}})
    assert sealed_ours["items"][0]["text"] != sealed_theirs["items"][0]["text"]
    opened_theirs = DeanonymizeEngine().deanonymize(
        sealed_ours["text"],
        [OperatorResult.from_json(sealed_ours["items"][0])],
        {"DEFAULT": OperatorConfig("decrypt", {"key": KEY})},
    )
    assert opened_theirs.text == text
    operator = Deanonymizer(type="decrypt", key=KEY)
    opened_ours = replaced(
        sealed_theirs["text"],
        places_of([sealed_theirs["items"][0]], field="anonymizer_results", scored=False),
        lambda _, found: (replacing.original(operator, found), operator.type),
        field="anonymizer_results",
        chars_max=1_000,
    )
    assert opened_ours.text == text
    assert opened_ours.items == [each.to_dict() for each in opened_theirs.items]


def test_a_hash_without_a_salt_differs_for_each_find() -> None:
    found = ours("abab", [place(0, 2, "PERSON"), place(2, 4, "LOCATION")], {"DEFAULT": {"type": "hash"}})
    first, second = (each["text"] for each in found["items"])
    assert len(first) == len(second) == 64
    assert first != second


def test_what_was_not_encrypted_is_refused_without_a_word_of_it() -> None:
    for sealed in ("", "zq", "AAAA", "Zq" * 40, "é" * 8):
        with pytest.raises(InvalidInput) as refused:
            replacing.decrypted(KEY, sealed)
        assert "zq" not in str(refused.value).casefold()


def test_places_beyond_the_text_and_too_long_answers_are_refused() -> None:
    with pytest.raises(InvalidInput):
        ours("ab", [place(1, 3, "PERSON")], {})
    regions = without_conflicts("ab", places_of([place(0, 2, "PERSON")], field="text", scored=True))
    with pytest.raises(InvalidInput):
        replaced("ab", regions, lambda *_: ("x" * 11, "replace"), field="text", chars_max=10)


def test_long_places_that_overlap_too_often_are_refused() -> None:
    """Places of different types that overlap in part are each read, which must not take the square of their number."""
    text, read = "a" * 4_000, 0

    def operate(_: str, found: str) -> tuple[str, str]:
        nonlocal read
        read += len(found)
        return "x", "hash"

    def answer(count: int, length: int) -> str:
        given = [place(number, number + length, f"TYPE_{number}") for number in range(count)]
        places = without_conflicts(text, places_of(given, field="results", scored=True))
        return replaced(text, places, operate, field="results", chars_max=100_000).text

    assert answer(2_000, 400).startswith("x" * 2_000)
    read = 0
    with pytest.raises(InvalidInput) as refused:
        answer(2_000, 2_000)
    assert (refused.value.field, read) == ("results", 0)
