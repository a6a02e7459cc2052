"""The values of a JSON document that a request sends.

A fill without a price replaces values in the source of the document (`json_values`): what does not change keeps its
escapes and its white space. A fill with a price must not, because the kept source of a value would show that its draw
equals the original. It writes every value into the document's `public_form`, which holds no part of a value.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.formats import json_form
from core.text.formats.builder import Builder, FormatLimits, FormatOptions, parse
from core.text.formats.codecs import CODECS

_HALF = regex.compile(r"[\ud800-\udfff]")
_PART = re.compile(
    r'"(?P<string>[^"\\]*+(?:\\.[^"\\]*+)*+)"(?P<colon>[ \t\r\n]*+:)?|(?P<number>-?[0-9][0-9.eE+-]*+)'
    r"|[ \t\r\n\ufeff]++"
)  # of a document that is JSON
_EMPTY = '""'  # a string, or the place of a number


class _Unread(Builder):
    """Takes a document without its values: whether it is JSON then depends on none of their lengths."""

    def value(self, start: int, end: int, codec: str, *, before: str = "", kind: str = "") -> None:
        pass


class JsonValue(NamedTuple):
    """A string or a number of a JSON document. start, end: of its source, in code points; a string's are inside its
    quotes. text: what it stands for."""

    start: int
    end: int
    text: str
    number: bool

    def __repr__(self) -> str:
        return f"JsonValue({self.start}, {self.end})"


def json_values(source: str) -> list[JsonValue]:
    """Return the values of a JSON document that have a letter or a digit, in order. Keys are no values.

    Raises InvalidInput if the document is not JSON. The error shows the position and nothing of the document."""
    form = parse("json", source, FormatOptions(), FormatLimits())
    if form is None:
        return []
    return [
        JsonValue(start, end, _readable(form.codec(at).read(source[start:end])[0]), form.codec(at).whole)
        for at, (start, end) in enumerate(zip(form.starts, form.ends, strict=True))
    ]


def public_form(source: str) -> tuple[str, list[JsonValue], list[str]]:
    """Return a JSON document with every string and number empty, its values there, and their texts in the source.

    Guarantee: the document and the places depend on the keys, the nesting, the types of the values and the literals
    `true`, `false` and `null` alone, so what `with_values` makes of them depends on these and on its `texts`. They do
    not depend on white space, on escapes, or on the content of any string or number. Raises as `json_values`.
    """
    json_form.read(_Unread(source, FormatLimits()), FormatOptions())
    form: list[str] = []
    values: list[JsonValue] = []
    texts: list[str] = []
    read = size = 0
    for part in _PART.finditer(source):
        place, written = size + part.start() - read, ""
        if part["number"]:
            values.append(JsonValue(place, place + 2, "", number=True))
            texts.append(part["number"])
            written = _EMPTY
        elif part["string"] is not None:
            text = CODECS["json_string"].read(part["string"])[0]
            if part["colon"]:
                written = without_halves(json.dumps(text, ensure_ascii=False)) + ":"
            else:
                values.append(JsonValue(place + 1, place + 1, "", number=False))
                texts.append(_readable(text))
                written = _EMPTY
        form += [source[read : part.start()], written]
        read, size = part.end(), place + len(written)
    return "".join((*form, source[read:])), values, texts


def with_values(source: str, values: Sequence[JsonValue], texts: Sequence[str]) -> str:
    """Return a JSON document with `texts` for its values. All else keeps its source. A number whose text is none
    becomes a string."""
    pieces, read = [], 0
    for value, text in zip(values, texts, strict=True):
        if text == value.text:
            continue
        raw = source[value.start : value.end]
        written = CODECS["json_number" if value.number else "json_string"].written(raw, [text])
        pieces += [source[read : value.start], written.before, without_halves(written.write(text)), written.after]
        read = value.end
    return "".join((*pieces, source[read:]))


def _readable(text: str) -> str:
    """Return a text as recognisers and workers can read it: a half of a surrogate pair is no character."""
    return str(_HALF.sub("\ufffd", text))


def without_halves(written: str) -> str:
    """Return the source of a string without halves of surrogate pairs, which are no characters of a file."""
    return str(_HALF.sub(lambda half: f"\\u{ord(half.group()):04x}", written))
