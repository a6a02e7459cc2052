"""JSON whose values are masked and restored, whole and in pieces."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.text.reversible.forms import mapping_of
from core.text.reversible.json_text import json_values, with_values
from core.text.reversible.mapping import Content, Pair, is_key

MAPPING = mapping_of(
    Content(
        (
            Pair("PERSON", 'Anna "K" Müller', "Maria Weber Lindt"),
            Pair("PERSON", "Zoë 😀", "Petra 😎 Haas"),
            Pair("CREDIT_CARD", "4111111111111111", "4000001234567899"),
            Pair("PHONE_NUMBER", "+49 30 1234567", "+49 30 23125000"),
            Pair("PHONE_NUMBER", "030 7654321", "044 2312567"),
            Pair("PASSWORD", 'a\\b\n"c', 'x\\y\n"z'),
        ),
        "de",
    )
)
_STRINGS = st.one_of(
    st.sampled_from([pair.surrogate for pair in MAPPING.content.pairs]),
    st.lists(st.sampled_from([*"\n \\\"😎x/é", "Maria", "Weber", "Petra"]), max_size=6).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)  # fmt: skip
_NUMBERS = st.sampled_from([4000001234567899, 493023125000, 40000012345678990, -4000001234567899, 1.5, 0, 10**70])
_DOCUMENTS = st.recursive(
    st.one_of(_STRINGS, _NUMBERS, st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_STRINGS, inner, max_size=4)),
    max_leaves=8,
)


def streamed(pieces: list[str]) -> str:
    restorer = MAPPING.restorer("json")
    return "".join(map(restorer.feed, pieces)) + restorer.end()


def restored(value: Any) -> Any:
    if isinstance(value, str):
        return MAPPING.restore(value)
    if isinstance(value, list):
        return [restored(each) for each in value]
    if isinstance(value, dict):
        return {key if is_key(key) else MAPPING.restore(key): restored(each) for key, each in value.items()}
    return {4000001234567899: 4111111111111111}.get(value, value) if value is not True else value


@settings(max_examples=300, deadline=None)
@given(_DOCUMENTS, st.booleans(), st.sampled_from([None, 1]), st.randoms(use_true_random=False))
def test_every_string_is_restored_and_any_split_gives_the_same(
    document: Any, escaped: bool, indent: int | None, chance: random.Random
) -> None:
    source = json.dumps(document, ensure_ascii=escaped, indent=indent)
    whole = streamed([source])
    assert json.loads(whole) == restored(document)
    assert streamed(list(source)) == whole
    cuts = sorted(chance.randrange(len(source) + 1) for _ in range(4))
    assert streamed([source[a:b] for a, b in zip([0, *cuts], [*cuts, len(source)], strict=True)]) == whole


def test_documents_and_what_is_none_whole_and_in_pieces() -> None:
    for source, passed in [
        (
            '{"Maria Weber Lindt": {"maria": 1, "Petra \\ud83d\\ude0e Haas": 2, "Wer?": 3}}',
            '{"Anna \\"K\\" Müller": {"maria": 1, "Zoë 😀": 2, "Wer?": 3}}',
        ),
        (
            '{ "Maria" : ["Maria", {"Weber":"Lindt"}],\n "n": 1.50 }',
            '{ "Maria" : ["Anna", {"Weber":"Müller"}],\n "n": 1.50 }',
        ),
        ('{"card": 4000001234567899, "id": 4000001234567890}', '{"card": 4111111111111111, "id": 4000001234567890}'),
        ("493023125000", "493023125000"),  # the original has another number of digits
        ("[0442312567]", "[0442312567]"),  # the original begins with 0 and is no number of JSON
        ('{"a": "Maria We', '{"a": "Anna We'),
        ('{"a": "x\\u00', '{"a": "x\\u00'),
        ('{"a": "Maria \\q Maria"}', '{"a": "Anna \\q Maria"}'),
        ("}]],:: Maria", "}]],:: Maria"),
        ('{"Maria', '{"Maria'),
        ('"\\ud83d', '"\\ud83d'),
        ("12" * 50, "12" * 50),
        ("", ""),
    ]:
        assert streamed([source]) == passed
        assert streamed(list(source)) == passed


@given(st.lists(st.sampled_from([*'{}[]":,\\u0d8-', "Maria", "4000001234567899", "\n"]), max_size=30).map("".join))
def test_no_source_raises(source: str) -> None:
    assert streamed(list(source)) == streamed([source])


def test_a_string_is_passed_on_before_its_end() -> None:
    restorer = MAPPING.restorer("json")
    assert restorer.feed('{"a": "Hello Mar') == '{"a": "Hello '


def test_values_of_a_document_are_replaced_in_its_source() -> None:
    source = '{"na\\u006de": "Anna \\"K\\" M\\u00fcller", "card": 4111111111111111, "ok": [true, "", "x\\/y"]}'
    values = json_values(source)
    assert [(value.text, value.number) for value in values] == [
        ('Anna "K" Müller', False), ("4111111111111111", True), ("x/y", False),
    ]  # fmt: skip
    done = with_values(source, values, ["Maria Weber Lindt", "4000001234567899", "x/y"])
    assert done == '{"na\\u006de": "Maria Weber Lindt", "card": 4000001234567899, "ok": [true, "", "x\\/y"]}'
    assert json.loads(streamed([done])) == json.loads(source)
    assert json.loads(with_values(source, values, ["a", "[CREDIT_CARD_1]", "c"]))["card"] == "[CREDIT_CARD_1]"
    assert "Anna" not in repr(values)


def test_halves_of_surrogate_pairs_are_read_as_characters_and_stay_in_values_that_do_not_change() -> None:
    source = '["\\ud83d Anna", "\\ude42", "\\ud83d b"]'
    values = json_values(source)
    assert [value.text for value in values] == ["\ufffd Anna", "\ufffd b"]
    assert with_values(source, values, ["\ufffd Olga", "\ufffd b"]) == '["\ufffd Olga", "\\ude42", "\\ud83d b"]'


def test_a_document_that_is_not_json_is_refused_without_its_text() -> None:
    with pytest.raises(InvalidInput) as caught:
        json_values('{"a": Anna}')
    assert "Anna" not in str(caught.value)
