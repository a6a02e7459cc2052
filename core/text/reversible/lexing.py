"""Splits a text into words, marks and white space, reads the escapes of Markdown, HTML and URLs, and writes them.

A token is a run of letters, marks and digits, a run of white space with at most one line break, or one other character
with the combining marks after it. A run of letters of Chinese, Japanese, Korean or Thai is a token of its own, so that
`MariaWeber` is one token and `Maria去` is two. `_` is no letter. A point between two digits is inside a token: `12.5`.

A token may be written with escapes: `M%C3%BCller`, `O&#39;Neil`, `maria\\_weber`. Full-width, mathematical and
circled letters are read as the plain ones. All scans are linear.

`encoded_as` writes a replacement in the encoding in which the text has what it replaces. The encoding is read from the
escapes and the white space of the text: `Maria%20Weber` is in percent encoding, with a space as `%20`. Characters that
the text writes without an escape are written so in the replacement. HTML writes the letters outside of ASCII by name
(`Sch&ouml;ne`), in decimal (`&#246;`) or in hexadecimal (`&#xf6;`). A replacement has them in the same way. If it has
none, its first letter is written as an entity that tells the way: `&#87;eber` by name, `&#087;eber` in decimal,
`&#x57;eber` in hexadecimal.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.entities import codepoint2name
from typing import Any, NamedTuple
from urllib.parse import quote

import regex  # type: ignore[import-untyped]

SPACE = " "
WORD, NUMBER, EASTERN, OTHER = "word", "number", "eastern", "other"
MARKDOWN, HTML, PERCENT = "markdown", "html", "percent"

_EAST = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}"
_BLANK = r"[[\s\x1c-\x1f]--[\r\n]]"
_MORE = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_EAST}]]"
_TOKEN = regex.compile(
    rf"[[{_EAST}]&&[\p{{L}}\p{{N}}]][{_EAST}\p{{M}}]*+"
    rf"|[[\p{{L}}\p{{N}}]--[{_EAST}]]{_MORE}*+(?:(?<=\p{{Nd}})\.(?=\p{{Nd}}){_MORE}++)*+"
    rf"|{_BLANK}{{1,16}}+(?:(?:\r\n|[\r\n]){_BLANK}{{0,16}}+)?|(?:\r\n|[\r\n]){_BLANK}{{0,16}}+"
    r"|.\p{M}*+",
    regex.DOTALL | regex.VERSION1,
)
# the same in a text of ASCII, which `re` splits in a quarter of the time
_ASCII_BLANK = r"[ \t\x0b\x0c\x1c-\x1f]"
_ASCII_TOKEN = re.compile(
    r"[A-Za-z0-9]+(?:(?<=[0-9])\.(?=[0-9])[A-Za-z0-9]+)*"
    rf"|{_ASCII_BLANK}{{1,16}}(?:(?:\r\n|[\r\n]){_ASCII_BLANK}{{0,16}})?|(?:\r\n|[\r\n]){_ASCII_BLANK}{{0,16}}"
    r"|.",
    re.DOTALL,
)
_KIND = regex.compile(
    rf"(?P<eastern>[[{_EAST}]&&[\p{{L}}\p{{N}}]])|(?P<number>[\p{{L}}\p{{N}}].*(?<=\p{{Nd}})\Z)|(?P<word>[\p{{L}}\p{{N}}])",
    regex.DOTALL | regex.VERSION1,
)
_HEX = "[0-9a-fA-F]"
_NEXT = "%[89abAB]" + _HEX
_ESCAPE = regex.compile(
    rf"""(?P<cut>(?:\\[nrt]?|&(?:\#?[0-9a-zA-Z]{{0,10}})?|%(?:[0-7]|[c-fC-F]{_HEX}?)?|%[c-fC-F]{_HEX}%[89abAB]?
    |%[eE]{_HEX}{_NEXT}(?:%[89abAB]?)?|%[fF][0-4]{_NEXT}(?:%[89abAB]?)?|%[fF][0-4]{_NEXT}{_NEXT}(?:%[89abAB]?)?)\Z)
    |(?P<markdown>\\[!-/:-@\[-`{{-~]|\\[nrt](?![a-z]))
    |(?P<html>&(?:\#[0-9]{{1,7}}|\#[xX]{_HEX}{{1,6}}|[a-zA-Z][a-zA-Z0-9]{{1,9}});)
    |(?P<percent>%[0-7]{_HEX}|%[cdCD]{_HEX}{_NEXT}|%[eE]{_HEX}{_NEXT}{_NEXT}|%[fF][0-4]{_NEXT}{_NEXT}{_NEXT})""",
    regex.VERBOSE,
)
_PLAIN = {
    code: plain
    for code in (*range(0x2100, 0x2150), *range(0x24B6, 0x24EA), *range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800))
    if len(plain := unicodedata.normalize("NFKC", chr(code))) == 1 and (plain.isalnum() or plain in "@.-_")
}  # one character for one, so that places in a text stay
_MAY_BE_PLAIN = re.compile(f"[{chr(min(_PLAIN))}-{chr(max(_PLAIN))}]")
_ODD_BLANK = re.compile(r"[^\S ]|[\x1c-\x1f]|  ")
_MAY_ESCAPE = re.compile(r"[\\&%]")
_BETWEEN = "\0"
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


class Lexed(NamedTuple):
    """`tokens`: as read. `raws`: as written; the same list if there are no escapes. `cut`: the beginning of an escape
    or of the rest of a number, at the end of the text, which belongs to no token."""

    tokens: list[str]
    raws: list[str]
    cut: str

    def __repr__(self) -> str:
        return f"Lexed({len(self.tokens)} tokens)"


class Escape(NamedTuple):
    start: int
    end: int
    kind: str
    plain: str

    def __repr__(self) -> str:
        return f"Escape({self.start}, {self.end}, {self.kind})"


def lex(text: str, *, final: bool = True) -> Lexed:
    """Return the tokens of `text`. `final`: nothing follows."""
    if text.isascii() and text.isalnum():
        return Lexed(word := [text], word, "")
    plain = _in_plain_letters(text)
    found, cut = _scan(plain, final=final) if _MAY_ESCAPE.search(plain) else ([], "")
    if cut:
        text, plain, cut = text[: -len(cut)], plain[: -len(cut)], text[-len(cut) :]
    if not found and plain == text:
        tokens = _split(text)
        return _lexed(tokens, tokens, cut, final=final)
    pieces, read = [], 0
    for escape in found:
        pieces += [plain[read : escape.start], escape.plain]
        read = escape.end
    pieces.append(plain[read:])
    tokens = _split("".join(pieces))
    return _lexed(tokens, _raws(text, tokens, found), cut, final=final)


def first_word(text: str) -> str | None:
    """Return the first token with letters of a text without escapes; None if there may be some, or no such token."""
    if text.isascii() and text.isalpha():
        return text
    tokens = () if _MAY_ESCAPE.search(text) else _form(text).finditer(_in_plain_letters(text))
    return next((token.group() for token in tokens if any(map(str.isalpha, token.group()))), None)


def as_read(text: str) -> str:
    """Return a text without its escapes, as its tokens are compared."""
    plain = _in_plain_letters(text)
    return "".join(lex(text).tokens) if _MAY_ESCAPE.search(plain) else plain


def _in_plain_letters(text: str) -> str:
    return text.translate(_PLAIN) if not text.isascii() and _MAY_BE_PLAIN.search(text) else text


def _split(text: str) -> list[str]:
    tokens: list[str] = _form(text).findall(text)
    return tokens


def _form(text: str) -> Any:
    return _ASCII_TOKEN if text.isascii() else _TOKEN


def _lexed(tokens: list[str], raws: list[str], cut: str, *, final: bool) -> Lexed:
    """Return the tokens. A point after a digit at the end is cut, because another digit may follow."""
    if final or len(tokens) < 2 or tokens[-1] != "." or kind(tokens[-2]) != NUMBER:
        return Lexed(tokens, raws, cut)
    return Lexed(tokens[:-1], raws[:-1], raws[-1] + cut)


def escapes(text: str) -> list[Escape]:
    """Return the escapes of a whole text, in order."""
    return _scan(text, final=True)[0] if _MAY_ESCAPE.search(text) else []


def kind(token: str) -> str:
    """Return what a token is: `WORD`, a word that ends with a digit as `NUMBER`, `EASTERN`, or `OTHER`."""
    if token.isascii():
        return OTHER if not token[:1].isalnum() else NUMBER if token[-1].isdecimal() else WORD
    found = _KIND.match(token)
    return found.lastgroup if found else OTHER


def normal(token: str) -> str:
    """Return the form of a token that is compared: all white space is one space."""
    return SPACE if token.isspace() else token


def normals_of(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the tokens of each text in the form that is compared. Texts of ASCII without escapes are split together."""
    together = [text.isascii() and not _MAY_ESCAPE.search(text) and _BETWEEN not in text for text in texts]
    joined = "".join(text + _BETWEEN for text, plain in zip(texts, together, strict=True) if plain)
    tokens = _split(joined)
    if _ODD_BLANK.search(joined):
        tokens = [*map(normal, tokens)]
    at = 0
    for text, plain in zip(texts, together, strict=True):
        if plain:
            end = tokens.index(_BETWEEN, at)
            yield tokens[at:end]
            at = end + 1
        else:
            yield [*map(normal, lex(text).tokens)]


def folded_text(text: str) -> str:
    """Return a text without its escapes, in small letters, with one space for all white space between two words."""
    if _MAY_ESCAPE.search(text) or _ODD_BLANK.search(text):
        return "".join(map(normal, lex(text).tokens)).casefold()
    return _in_plain_letters(text).casefold()


def folded_words(text: str) -> list[str]:
    """Return the tokens of a text with letters or digits, in small letters."""
    return [text.casefold()] if text.isascii() and text.isalnum() else folded(lex(text).tokens)


def folded(tokens: Iterable[str]) -> list[str]:
    """Return those with letters or digits, in small letters."""
    return [token.casefold() for token in tokens if token.isalnum() or (not token.isspace() and kind(token) != OTHER)]


def _scan(text: str, *, final: bool) -> tuple[list[Escape], str]:
    found: list[Escape] = []
    for match in _ESCAPE.finditer(text):
        kind = match.lastgroup
        if kind == "cut":
            if not final:
                return found, match.group()
            kind = MARKDOWN if match.group()[:1] == "\\" else None
            plain = _LETTERS.get(match.group()[1:])
        else:
            plain = _plain(kind, match.group())
        if kind and plain:
            found.append(Escape(match.start(), match.end(), kind, plain))
    return found, ""


def _plain(kind: str, written: str) -> str | None:
    """Return the character that an escape stands for; None if it stands for itself."""
    if kind == MARKDOWN:
        return _LETTERS.get(written[1], written[1])
    if kind == HTML:
        plain = html.unescape(written)
        return plain if len(plain) == 1 else None
    try:
        return bytes.fromhex(written.replace("%", "")).decode()
    except UnicodeDecodeError:
        return None


def _raws(text: str, tokens: list[str], found: list[Escape]) -> list[str]:
    """Return how each token is written in `text`, in which `found` stand for one character each."""
    raws: list[str] = []
    at, number = 0, 0  # of the text, of the escapes
    for token in tokens:
        start, left = at, len(token)
        while left:
            if number < len(found) and found[number].start < at + left:
                left -= found[number].start - at + 1
                at = found[number].end
                number += 1
            else:
                at, left = at + left, 0
        raws.append(text[start:at])
    return raws


_MARKDOWN_SPECIAL = frozenset("\\`*_{}[]()#|<>~")
_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_PERCENT_CODE = regex.compile("%[0-9a-fA-F]{2}")


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
    pieces, spaces = _at_spaces(replacement)
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


def _at_spaces(text: str) -> tuple[list[str], list[str]]:
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
    codes = "".join(_PERCENT_CODE.findall(raw))
    return _PERCENT_CODE.sub(lambda code: code.group().lower(), encoded) if codes != codes.upper() else encoded


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
