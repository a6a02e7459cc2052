"""The public form of a JSON document: what leaves is a function of it and of the fills alone."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.text.policy import TEXT_CHARS_MAX
from core.text.reversible.json_text import public_form, with_values

LETTERS = [*'amZ0 "\\/\n\t-', "\u2019", "\u00ad", "\u200b", "\ufeff", "\U0001f642", "\x7f", "\u2028", "\ufffd"]
SPACES = st.sampled_from(["", " ", "\t", "\r\n ", "\n\n"])
TEXTS = st.lists(st.sampled_from(LETTERS), max_size=6).map("".join)
NUMBERS = st.sampled_from(["0", "-0", "7", "-12", "1.50", "1e5", "1E+5", "-0.1e-7", "123456789012345678901234567890"])


@st.composite
def spelled(draw: st.DrawFn, text: str) -> str:
    """A string of JSON in one of its spellings."""
    pieces = []
    for letter in text:
        plain = json.dumps(letter, ensure_ascii=False)[1:-1]
        escaped = json.dumps(letter)[1:-1]
        units = "".join(f"\\u{unit:04X}" for unit in memoryview(letter.encode("utf-16-le")).cast("H"))
        pieces.append(draw(st.sampled_from([plain, escaped, units, "\\/" if letter == "/" else plain])))
    return '"' + "".join(pieces) + '"'


@st.composite
def documents(draw: st.DrawFn, tree: Any) -> str:
    """The source of a document of this form, with values, spellings and white space of its own."""
    space = draw(SPACES)
    if isinstance(tree, list):
        return "[" + ",".join(space + draw(documents(each)) + draw(SPACES) for each in tree) + space + "]"
    if isinstance(tree, dict):
        members = (f"{space}{draw(spelled(key))}{space}:{draw(documents(value))}" for key, value in tree.items())
        return "{" + ",".join(members) + space + "}"
    if isinstance(tree, str):
        return draw(TEXTS.flatmap(spelled)) + space
    return draw(NUMBERS) if tree == 0 and not isinstance(tree, bool) else json.dumps(tree)


FORMS = st.recursive(
    st.sampled_from(["", 0, True, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(st.data(), FORMS)
def test_documents_of_one_form_leave_alike_for_the_same_fills(data: st.DataObject, tree: Any) -> None:
    one, other = data.draw(documents(tree)), data.draw(documents(tree))
    (form, values, texts), (again, *_) = public_form(one), public_form(other)
    assert form == again
    assert form == json.dumps(emptied(tree), ensure_ascii=False, separators=(",", ":"))
    fills = data.draw(st.lists(TEXTS | NUMBERS, min_size=len(texts), max_size=len(texts)))
    left = with_values(form, values, fills)
    assert left == with_values(form, public_form(other)[1], fills)
    assert [str(each) for each in leaves(json.loads(left, parse_int=str, parse_float=str))] == fills
    kept = leaves(json.loads(one, parse_int=str, parse_float=str))
    assert texts == kept


def emptied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: emptied(value) for key, value in tree.items()}
    return [emptied(each) for each in tree] if isinstance(tree, list) else tree if tree in (True, None) else ""


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict | list):
        return [leaf for each in (tree.values() if isinstance(tree, dict) else tree) for leaf in leaves(each)]
    return [] if tree is None or isinstance(tree, bool) else [tree]


def test_every_string_and_number_is_a_value() -> None:
    source = '\ufeff { "na\\u006de" : ["\U0001f642", " ", "", "\\u00ad", true, null, -1.50 ], "k": {} }\n'
    form, values, texts = public_form(source)
    assert form == '{"name":["","","","",true,null,""],"k":{}}'
    assert texts == ["\U0001f642", " ", "", "\u00ad", "-1.50"]
    assert with_values(form, values, ["a", "", "5", "", "6"]) == '{"name":["a","","5","",true,null,6],"k":{}}'
    assert with_values(form, values, ["", "", "", "", ""]) == form


def test_halves_of_surrogate_pairs_become_characters_in_values() -> None:
    form, _, texts = public_form('{"\\ud800": "x\\udc00 \\ud83d\\ude42"}')
    assert (form, texts) == ('{"\\ud800":""}', ["x\ufffd \U0001f642"])


def test_whether_a_document_has_a_form_does_not_depend_on_the_lengths_of_its_values() -> None:
    for letter in ("-", "a"):
        source = json.dumps([letter * (TEXT_CHARS_MAX // 2)] * 3)
        assert public_form(source)[0] == '["","",""]'


def test_what_is_not_json_has_no_form() -> None:
    for source in ('{"a": Anna}', "[1 2]", "[01]", '["a" "b"]', "", '{"a"}'):
        with pytest.raises(InvalidInput) as caught:
            public_form(source)
        assert "Anna" not in str(caught.value)
