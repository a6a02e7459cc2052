"""The header lines of an e-mail: which values they hold, and what of them is structure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import NamedTuple

from core.text.formats.builder import NEW_VALUE, Builder, label_of, malformed, unfit
from core.text.formats.transfer import Transfer, check_charset

_HEADER = re.compile(r"([!-9;-~]++)[ \t]*+:((?:[^\r\n]|\r?\n[ \t])*+)(?:\r?\n|\Z)")
_BLANK = re.compile(r"\r?\n")
_WORD = r"=\?[^?\s]++\?[bBqQ]\?[^?\s]*+\?="
_ENCODED = re.compile(rf"{_WORD}(?:\s++{_WORD})*+")
_ATOM = r"""[^\s,;:<>"()=@]++"""
_LOCAL_PART = r"""[^\s,;:<>"()@]{1,256}+@"""  # bounded, so that reading is linear
_ADDRESSES = re.compile(
    rf"""
    (?P<encoded>{_ENCODED.pattern})
  | "(?P<quoted>[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+)(?:"|\\?\Z)  # one that is not closed reaches to the end
  | <(?P<angle>[^<>\r\n]++)>
  | \((?P<comment>[^()\r\n]++)\)
  | (?<![^\s,;:<>"()])(?P<bare>{_LOCAL_PART}[^\s,;:<>"()]++)
  | (?P<phrase>{_ATOM}(?:[ \t]++(?!{_LOCAL_PART}){_ATOM})*+)
    """,
    re.VERBOSE,
)
_OTHER = re.compile(r"""[^\s,;:<>"()]+""")
_KINDS = {
    "quoted": ("backslashed", "PERSON"),
    "angle": ("address", "EMAIL_ADDRESS"),
    "comment": ("plain", "PERSON"),
    "bare": ("address", "EMAIL_ADDRESS"),
    "phrase": ("phrase", "PERSON"),
}
_ADDRESS_HEADERS = frozenset(
    """
    from to cc bcc reply-to sender return-path delivered-to x-original-to envelope-to errors-to resent-from resent-to
    resent-cc resent-bcc resent-sender disposition-notification-to mail-followup-to apparently-to
    """.split()  # noqa: SIM905
)
_KEPT = frozenset(
    ["mime-version", "content-transfer-encoding", "content-id", "date", "resent-date", "content-length", "lines"]
)
_FILE_NAME = re.compile(r"\b(?:file)?name(?:\*\d*)?\*?=\s*(?:\"((?:[^\"\\]|\\.)*+)\"|([^\s;\"]++))", re.IGNORECASE)
_PARAMETERS = ("content-type", "content-disposition")
# Python's `email` takes the square of the length of each.
_STRUCTURE = frozenset({"content-type", "content-transfer-encoding"})
_STRUCTURE_CHARS_MAX = 2_000
_ENCODED_CHARS_MAX = 10_000


class Header(NamedTuple):
    """A header: its name in lower case, and where its value is."""

    name: str
    start: int
    end: int


def headers(source: str, at: int, end: int) -> tuple[list[Header], int]:
    """Return the headers that begin at `at`, and the start of the body.

    Raises InvalidInput for a line that is none, and for a long header that describes a part.
    """
    found: list[Header] = []
    while at < end:
        if blank := _BLANK.match(source, at, end):
            return found, blank.end()
        match = _HEADER.match(source, at, end)
        if match is None:
            raise malformed("e-mail", source, at)
        found.append(Header(match[1].lower(), *match.span(2)))
        if found[-1].name in _STRUCTURE and len(match[2]) > _STRUCTURE_CHARS_MAX:
            raise unfit(f"A header with the type or encoding of a part has at most {_STRUCTURE_CHARS_MAX} characters.")
        at = match.end()
    return found, end


def read_header(builder: Builder, header: Header, newline: str) -> None:
    """Add the values of a header. Raises InvalidInput for encoded words that cannot be read."""
    source, start, end = builder.source, header.start, header.end
    if header.name in _KEPT:
        return
    builder.show(NEW_VALUE + label_of(header.name))
    if header.name in _PARAMETERS:
        for name in _FILE_NAME.finditer(source, start, end):
            _piece(builder, *name.span(name.lastindex or 0), "code")
    elif header.name in _ADDRESS_HEADERS:
        _addresses(builder, start, end, newline)
    else:
        for match in _ENCODED.finditer(source, start, end):
            _text(builder, start, match.start())
            _encoded(builder, match, newline, "")
            start = match.end()
        _text(builder, start, end)


def _addresses(builder: Builder, start: int, end: int, newline: str) -> None:
    """Add all of a list of addresses. What is neither an address nor a name counts as a name."""
    for match in _ADDRESSES.finditer(builder.source, start, end):
        _names(builder, start, match.start())
        form = match.lastgroup or ""
        if form == "encoded":
            _encoded(builder, match, newline, "PERSON")
        else:
            codec, kind = _KINDS[form]
            _piece(builder, *match.span(form), codec, kind)
        builder.show(" ")
        start = match.end()
    _names(builder, start, end)


def _names(builder: Builder, start: int, end: int) -> None:
    for word in _OTHER.finditer(builder.source, start, end):
        _piece(builder, *word.span(), "phrase", "PERSON")
        builder.show(" ")


def _piece(builder: Builder, start: int, end: int, codec: str, kind: str = "") -> None:
    if any(map(str.isalnum, builder.source[start:end])):
        builder.block(start, end, builder.source[start:end], Transfer())
        builder.value(0, end - start, codec, kind=kind)


def _text(builder: Builder, start: int, end: int) -> None:
    for line in _lines(builder.source, start, end):
        _piece(builder, *line.span(), "plain")
        builder.show(" ")


def _lines(source: str, start: int, end: int) -> Iterator[re.Match[str]]:
    return re.compile(r"[^\r\n]+").finditer(source, start, end)


def _encoded(builder: Builder, match: re.Match[str], newline: str, kind: str) -> None:
    if len(match.group()) > _ENCODED_CHARS_MAX:
        raise unfit(f"Encoded words in a header of an e-mail have at most {_ENCODED_CHARS_MAX} characters together.")
    try:
        pieces = decode_header(match.group())
        for _, charset in pieces:
            check_charset(charset or "ascii")
        text = str(make_header(pieces))
    except (HeaderParseError, UnicodeError, LookupError, ValueError):
        text = None
    if text is None:
        raise unfit("An encoded word in a header of the e-mail cannot be decoded.")
    builder.block(*match.span(), text, Transfer("header", newline=newline))
    builder.value(0, len(text), "plain", kind=kind)
