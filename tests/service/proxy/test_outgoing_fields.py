"""The texts of a request: what is read, and what is written back."""

from __future__ import annotations

import pytest

from core.errors import InvalidInput
from service.proxy.outgoing import Field, sources_of
from service.proxy.slots import Kind, Slot
from service.proxy.texts import TextLimits, read_texts
from service.sanitize.proxy_terms import ProxyTerms

LIMITS = TextLimits(1_000, 100)


def fields_of(body: dict[str, str], *, priced: bool, limits: TextLimits = LIMITS) -> list[Field]:
    slots = [Slot(body, name, Kind.TEXT, name) for name in body]
    found = sources_of(slots, ProxyTerms(), limits, pseudonym_key=b"k")
    reads = read_texts([(slot.kind, source) for slot, source in found], limits, priced)
    return [Field(slot, read) for (slot, _), read in zip(found, reads, strict=True)]


def test_an_address_in_a_key_is_read_without_its_escapes() -> None:
    body = {"a": '{"maria\\u0040example\\u002eorg": 1}', "b": '{"DE89370400440532013000": 1}', "c": '{"to": 1}'}
    read = [each.texts for each in fields_of(body, priced=False)]
    assert read == [['{"maria@example.org": 1}'], [body["b"]], ["1"]]


def test_texts_with_escapes_are_read_without_them_for_masking_alone() -> None:
    body = {"a": "q=J%C3%B6rg", "b": '{"x": "q=J%C3%B6rg", "y": "Anna"}', "c": "Anna"}

    priced = fields_of(body, priced=True)
    assert [each.texts for each in priced] == [["q=J%C3%B6rg"], ["q=J%C3%B6rg", "Anna"], ["Anna"]]

    reading = fields_of(body, priced=False)
    assert [each.texts[-1] for each in reading] == ["q=Jörg", "q=Jörg", "Anna"]
    for each in reading:
        each.write([text.replace("Anna", "Olga").replace("J%C3%B6rg", "Karl") for text in each.texts])
    assert body == {"a": "q=Karl", "b": '{"x": "q=Karl", "y": "Olga"}', "c": "Olga"}


@pytest.mark.parametrize("text", ["%4D" * 500, "&amp;" * 300, '["' + "a" * 1_000 + '"]'])
def test_too_much_text_is_refused_before_it_is_decoded(text: str) -> None:
    slots = [Slot({"a": text}, "a", Kind.TEXT, "messages.0.content")]
    with pytest.raises(InvalidInput) as refused:
        sources_of(slots, ProxyTerms(), LIMITS, pseudonym_key=b"k")
    assert refused.value.field == "messages.0.content"


def test_texts_within_texts_count() -> None:
    with pytest.raises(InvalidInput) as refused:
        fields_of({"a": "b", "c": "[" + '"d",' * 100 + '"e"]'}, priced=False)
    assert refused.value.field == "1"
