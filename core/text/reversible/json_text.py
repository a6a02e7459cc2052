"""The values of a JSON document that a request sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.formats.builder import FormatLimits
from core.text.formats.codecs import CODECS
from core.text.formats.options import FormatOptions
from core.text.formats.registry import parse

_HALF = regex.compile(r"[\ud800-\udfff]")


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
        JsonValue(start, end, form.codec(at).read(source[start:end])[0], form.codec(at).whole)
        for at, (start, end) in enumerate(zip(form.starts, form.ends, strict=True))
    ]


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


def without_halves(written: str) -> str:
    """Return the source of a string without halves of surrogate pairs, which are no characters of a file."""
    return str(_HALF.sub(lambda half: f"\\u{ord(half.group()):04x}", written))
