"""The text of a value as recognisers read it, with the place of each character in the value's source."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.text.formats.codecs import Codec
from core.text.recogniser import BOUNDARY
from core.text.visible import HIDDEN, INVISIBLE

# A run of them is read once, because no find begins inside a run.
_AT_EDGES = re.compile(rf"\A{INVISIBLE}++|(?<!{INVISIBLE}){INVISIBLE}++\Z")
# Not characters of a text: halves of a surrogate pair, NUL, and the boundary of values.
_NO_TEXT = re.compile(rf"[\ud800-\udfff\x00{BOUNDARY}]")
_REPLACEMENT = "\ufffd"


def read_value(codec: Codec, raw: str) -> tuple[str, Sequence[int]]:
    """Return what `codec` reads, as `core.text.visible` shows it, and the places of its characters and of its end.

    Invisible characters at the edges are left out, so that values that follow one another directly hide none.
    """
    text, places = codec.read(raw)
    if text.isascii():
        return (text.replace("\x00", _REPLACEMENT) if "\x00" in text else text), places
    text = _NO_TEXT.sub(_REPLACEMENT, text)
    for pattern in (_AT_EDGES, HIDDEN):
        text, places = _without(pattern, text, places)
    return text, places


def _without(pattern: re.Pattern[str], text: str, places: Sequence[int]) -> tuple[str, Sequence[int]]:
    if pattern.search(text) is None:
        return text, places
    pieces: list[str] = []
    kept: list[int] = []
    read = 0
    for match in pattern.finditer(text):
        pieces.append(text[read : match.start()])
        kept.extend(places[read : match.start()])
        read = match.end()
    pieces.append(text[read:])
    # The end is that of the last character which is kept, so that what follows it stays.
    kept.extend(places[read:-1] if read < len(text) else ())
    end = places[-1] if read < len(text) else places[len(text) - len(match.group())]
    return "".join(pieces), [*kept, end]
