"""Reads the masked strings of a document and makes the terms of its surrogates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.text.surrogates.date_shift import shift_of
from core.text.surrogates.draw import Draw
from core.text.surrogates.name_book import book_of
from core.text.surrogates.names import LOCALES
from core.text.surrogates.originals import Originals
from core.text.surrogates.terms import Document

DEFAULT_LANGUAGE = "en"
DATES = ("DATE_TIME", "DATE_OF_BIRTH")
PERSON = "PERSON"


def surrogate_language(language: str | None) -> str:
    """Return the language that surrogates are in: English for one that is not supported or not known."""
    return language if language in LOCALES else DEFAULT_LANGUAGE


def document_of(values: Iterable[tuple[str, str]], strings: frozenset[str], *, key: bytes, language: str) -> Document:
    """Return the terms of a document. `values`: its types and masked strings. `strings`: as in `Document`."""
    found = list(values)
    bare = Document(key, language, strings)

    def draw(*parts: str, attempt: int) -> Draw:
        return Draw(bare, *parts, attempt=attempt)

    known = Originals(strings)
    names = book_of(_of(found, (PERSON,)), language, draw, known.repeated_by)
    dates = shift_of(_of(found, DATES), language, draw, known)
    return Document(key, language, strings, names, dates)


def _of(values: Sequence[tuple[str, str]], types: tuple[str, ...]) -> list[str]:
    return [original for type_, original in values if type_ in types]
