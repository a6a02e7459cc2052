"""The texts of a request: what is read, and what is written back."""

from __future__ import annotations

from service.proxy.outgoing import fields_of
from service.proxy.slots import Kind, Slot
from service.sanitize.proxy_terms import ProxyTerms


def test_an_address_in_a_key_is_read_without_its_escapes() -> None:
    body = {"a": '{"maria\\u0040example\\u002eorg": 1}', "b": '{"DE89370400440532013000": 1}', "c": '{"to": 1}'}
    slots = [Slot(body, name, Kind.TEXT, name) for name in body]

    fields = fields_of(slots, ProxyTerms(), pseudonym_key=b"k")
    assert [each.texts for each in fields] == [['{"maria@example.org": 1}'], [body["b"]], ["1"]]


def test_texts_with_escapes_are_read_without_them_for_masking_alone() -> None:
    body = {"a": "q=J%C3%B6rg", "b": '{"x": "q=J%C3%B6rg", "y": "Anna"}', "c": "Anna"}
    slots = [Slot(body, name, Kind.TEXT, name) for name in body]

    fields = fields_of(slots, ProxyTerms(), pseudonym_key=b"k")
    assert [each.texts for each in fields] == [["q=J%C3%B6rg"], ["q=J%C3%B6rg", "Anna"], ["Anna"]]

    reading = [each.with_readings() for each in fields]
    assert [each.texts[-1] for each in reading] == ["q=Jörg", "q=Jörg", "Anna"]
    for each in reading:
        each.write([text.replace("Anna", "Olga").replace("J%C3%B6rg", "Karl") for text in each.texts])
    assert body == {"a": "q=Karl", "b": '{"x": "q=Karl", "y": "Olga"}', "c": "Olga"}
