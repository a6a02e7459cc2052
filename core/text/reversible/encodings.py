"""Writes a replacement in the encoding in which the text has what it replaces.

The encoding is read from the escapes and the white space of the text: `Maria%20Weber` is in percent encoding, with a
space as `%20`. Characters that the text writes without an escape are written so in the replacement.

HTML writes the letters outside of ASCII by name (`Sch&ouml;ne`), in decimal (`&#246;`) or in hexadecimal (`&#xf6;`). A
replacement has them in the same way. If it has none, its first letter is written as an entity that tells the way:
`&#87;eber` by name, `&#087;eber` in decimal, `&#x57;eber` in hexadecimal.
"""

from collections.abc import Callable, Iterator
from html.entities import codepoint2name
from urllib.parse import quote

import regex  # type: ignore[import-untyped]

from core.text.reversible.lexing import HTML, PERCENT, SPACE, Escape, escapes, lex, normal

_MARKDOWN_SPECIAL = frozenset("\\`*_{}[]()#|<>~")
_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_HEX = regex.compile("%[0-9a-fA-F]{2}")


def encoded_as(raw: str, written: str, replacement: str) -> str:
    """Return `replacement` in the encoding of `raw`, another writing of `written`."""
    found = escapes(raw)
    if found and escapes(written):
        found = []  # what is written has escapes of its own, so that those of `raw` do not tell an encoding
    old, new = _spaces(written), _spaces(raw)
    plus = "+" in raw and len(new) < len(old)
    if plus:
        new = _spaces_or_plus(raw, written)
    encode = _encoder(raw, found, plus=plus)
    pieces, spaces = _split(replacement)
    if len(spaces) == len(new) == len(old):
        spaces = [encode(own) if now == before else now for own, now, before in zip(spaces, new, old, strict=True)]
    else:
        spaces = [_same_space(own, new, encode) for own in spaces]
    encoded = [encode(piece) for piece in pieces]
    way = None if plus or any(map(_is_wide, replacement)) else _way(raw, found)
    if way and all(escape.kind == HTML for escape in found):
        encoded = list(_with_marked_letter(encoded, pieces, way))
    return encoded[0] + "".join(space + piece for space, piece in zip(spaces, encoded[1:], strict=True))


def _spaces(text: str) -> list[str]:
    tokens, raws, _ = lex(text)
    return [raw for token, raw in zip(tokens, raws, strict=True) if normal(token) == SPACE]


def _spaces_or_plus(raw: str, written: str) -> list[str]:
    """Return what `raw` has in the places where `written` has white space."""
    plain = lex(written).tokens
    return [own for token, own in zip(plain, lex(raw).raws, strict=False) if normal(token) == SPACE]


def _split(text: str) -> tuple[list[str], list[str]]:
    """Return what is between the white space of a text, and the white space. `text` is not read for escapes."""
    parts = regex.split(r"((?>[^\S\r\n]*+(?:\r\n|[\r\n])[^\S\r\n]*+|[^\S\r\n]++))", text)
    return parts[::2], parts[1::2]


def _same_space(own: str, new: list[str], encode: Callable[[str], str]) -> str:
    kept = [space for space in new if "\n" not in space and "\r" not in space]
    return kept[0] if kept and own == SPACE else encode(own)


def _encoder(raw: str, found: list[Escape], *, plus: bool) -> Callable[[str], str]:
    literal = _literal(raw, found)
    kinds = {escape.kind for escape in found}
    if PERCENT in kinds or plus:
        return lambda text: _percent(text, raw, literal)
    if HTML in kinds:
        return lambda text: _entities(text, raw, literal, found)
    if kinds:
        special = (_MARKDOWN_SPECIAL | {escape.plain for escape in found}) - literal - {"\n", "\r", "\t"}
        return lambda text: "".join("\\" + char if char in special else char for char in text)
    return str


def _literal(raw: str, found: list[Escape]) -> frozenset[str]:
    """Return the characters that `raw` has outside of its escapes."""
    outside, read = [], 0
    for escape in found:
        outside.append(raw[read : escape.start])
        read = escape.end
    return frozenset("".join((*outside, raw[read:])))


def _percent(text: str, raw: str, literal: frozenset[str]) -> str:
    safe = "".join(char for char in literal if char.isascii() and not char.isspace() and char not in "%+")
    wide = any(not char.isascii() for char in literal)
    encoded = "".join(char if wide and char.isalnum() else quote(char, safe=safe, errors="replace") for char in text)
    codes = "".join(_HEX.findall(raw))
    return _HEX.sub(lambda code: code.group().lower(), encoded) if codes != codes.upper() else encoded


def is_in_entities(text: str) -> bool:
    """Whether a text writes letters outside of ASCII as entities of HTML, and has no other escapes."""
    found = escapes(text)
    return all(escape.kind == HTML for escape in found) and any(map(_is_wide, (escape.plain for escape in found)))


def _is_wide(char: str) -> bool:
    return char.isalnum() and not char.isascii()


def _entities(text: str, raw: str, literal: frozenset[str], found: list[Escape]) -> str:
    own = {escape.plain: raw[escape.start : escape.end] for escape in found}
    way = _way(raw, found)

    def entity(char: str) -> str:
        if char in own and not (char.isascii() and char.isalnum()):
            return own[char]
        if char in _NAMED:
            return char if char in literal and char != "&" else _NAMED[char]
        if char == "'":
            return char if char in literal else "&#39;"
        return way(char) if way and _is_wide(char) else char

    return "".join(map(entity, text))


def _with_marked_letter(encoded: list[str], pieces: list[str], way: Callable[[str], str]) -> Iterator[str]:
    """Yield the pieces in entities, with the first letter of ASCII as one that tells how others are written."""
    marked = False
    for done, piece in zip(encoded, pieces, strict=True):
        if not marked and piece[:1].isascii() and piece[:1].isalpha():
            marked = True
            yield _telling(way, piece[0]) + done[1:]
        else:
            yield done


def _by_name(char: str) -> str:
    name = codepoint2name.get(ord(char))
    return f"&{name};" if name else _in_decimal(char)


def _in_decimal(char: str) -> str:
    return f"&#{ord(char)};"


def _in_hexadecimal(char: str) -> str:
    return f"&#x{ord(char):x};"


def _in_hexadecimal_capitals(char: str) -> str:
    return f"&#x{ord(char):X};"


_WAYS: dict[Callable[[str], str], str] = {
    _in_decimal: "&#0{:d};",
    _by_name: "&#{:d};",
    _in_hexadecimal: "&#x{:x};",
    _in_hexadecimal_capitals: "&#x0{:x};",
}


def _telling(way: Callable[[str], str], letter: str) -> str:
    """Write a letter of ASCII as an entity that tells how letters outside of ASCII are written."""
    return _WAYS[way].format(ord(letter))


def _way(raw: str, found: list[Escape]) -> Callable[[str], str] | None:
    """Return how `raw` writes letters outside of ASCII; None if it writes no letter or digit as an entity."""
    for escape in found:
        char, written = escape.plain, raw[escape.start : escape.end]
        if escape.kind == HTML and char.isalnum() and char.isascii():
            return next((way for way in _WAYS if _telling(way, char) == written), _in_decimal)
        if escape.kind == HTML and char.isalnum():
            return next((way for way in _WAYS if way(char) == written), _by_name)
    return None
