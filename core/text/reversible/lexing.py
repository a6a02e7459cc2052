"""Splits a text into words, marks and white space, and reads the escapes of Markdown, HTML and URLs.

A token is a run of letters, marks and digits, a run of white space with at most one line break, or one other character
with the combining marks after it. A run of letters of Chinese, Japanese, Korean or Thai is a token of its own, so that
`MariaWeber` is one token and `Maria去` is two. `_` is no letter. A point between two digits is inside a token: `12.5`.

A token may be written with escapes: `M%C3%BCller`, `O&#39;Neil`, `maria\\_weber`. Full-width, mathematical and
circled letters are read as the plain ones. All scans are linear.
"""

import html
import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

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
_MAY_BE_PLAIN = regex.compile(f"[{''.join(map(chr, _PLAIN))}]")
_MAY_ESCAPE = regex.compile(r"[\\&%]")
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


def as_read(text: str) -> str:
    """Return a text without its escapes, as its tokens are compared."""
    plain = _in_plain_letters(text)
    return "".join(lex(text).tokens) if _MAY_ESCAPE.search(plain) else plain


def _in_plain_letters(text: str) -> str:
    return text.translate(_PLAIN) if not text.isascii() and _MAY_BE_PLAIN.search(text) else text


def _split(text: str) -> list[str]:
    tokens: list[str] = (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)
    return tokens


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
    found = _KIND.match(token)
    return found.lastgroup if found else OTHER


def normal(token: str) -> str:
    """Return the form of a token that is compared: all white space is one space."""
    return SPACE if token.isspace() else token


def folded_words(text: str) -> list[str]:
    """Return the tokens of a text with letters or digits, in small letters."""
    return folded(lex(text).tokens)


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
