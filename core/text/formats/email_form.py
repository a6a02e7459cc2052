"""The format `email`: RFC 5322 and MIME. Headers, texts and HTML are values; the structure of parts is kept.

Addresses and display names in the headers of addresses are masked as a whole. A text part is decoded, and encoded again
in its charset and transfer encoding if something in it is masked. A part that is no text is an attachment: the document
is refused, the attachment dropped, or passed, as the option says. If Python's `email` package sees other parts than
this module, the document is refused, so that no part is released that was not read.
"""

import email.message
import email.parser
import email.policy
import re
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from itertools import pairwise
from typing import NamedTuple

from core.text.formats.builder import NEW_VALUE, Builder, FormatLimits, FormatOptions, label_of, malformed, unfit
from core.text.formats.codecs import Transfer, check_charset
from core.text.formats.html_form import HtmlReader

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


_LINE = re.compile(r"((?:[ \t]*>)*[ \t]?)([^\r\n]*)(\r?\n|\r)?")
_AS_IT_IS = frozenset({"", "7bit", "8bit", "binary"})
_DECODED = frozenset({"base64", "quoted-printable"})
_STATUS = "message/delivery-status"  # `email` reads its blocks of headers as messages
_DEPTH_MAX = 20  # each part is read again for every part around it
_DROPPED = "Content-Type: text/plain; charset=us-ascii{0}{0}[ATTACHMENT]"


def read(builder: Builder, options: FormatOptions) -> None:
    """Add the values of the e-mail. Raises InvalidInput if it or a part cannot be read."""
    reader = _Reader(builder, options)
    start = int(builder.source.startswith("\ufeff"))
    reader.part(start, len(builder.source), 0)
    message = email.message_from_string(builder.source[start:], policy=email.policy.compat32)
    if list(_types(message)) != reader.types:
        raise unfit("The parts of the e-mail are ambiguous.")


def _types(message: email.message.Message) -> Iterator[str]:
    yield message.get_content_type()
    if message.is_multipart() and message.get_content_type() != _STATUS:
        for part in message.get_payload():
            if isinstance(part, email.message.Message):
                yield from _types(part)


class _Reader:
    """`types`: the types of the parts that were read, in the order of `email.message.Message.walk`."""

    def __init__(self, builder: Builder, options: FormatOptions) -> None:
        self._builder = builder
        self._options = options
        self._source = builder.source
        self._limits: FormatLimits = builder.limits
        self._newline = "\r\n" if "\r\n" in self._source else "\n"
        self.types: list[str] = []

    def part(self, start: int, end: int, depth: int) -> None:
        """Read a part with its headers."""
        depth_max = min(self._limits.depth_max, _DEPTH_MAX)
        if len(self.types) >= self._limits.parts_max or depth > depth_max:
            raise unfit(f"An e-mail has at most {self._limits.parts_max} parts, nested {depth_max} deep.")
        found, body = headers(self._source, start, end)
        message = email.parser.HeaderParser(policy=email.policy.compat32).parsestr(self._source[start:body])
        kind = message.get_content_type()
        self.types.append(kind)
        dropped = (
            self._is_attachment(message)
            and self._options.email.attachments == "drop"
            and depth > 0
            and not message.is_multipart()
        )
        if dropped:
            self._builder.block(start, end, self._source[start:end], Transfer())
            self._builder.cut(0, end - start, _DROPPED.format(self._newline))
            return
        for header in found:
            read_header(self._builder, header, self._newline)
        encoding = str(message.get("content-transfer-encoding", "")).strip().lower()
        if self._is_attachment(message):
            if self._options.email.attachments != "pass":
                if depth == 0:
                    raise unfit("The e-mail itself is a document that is not text, which cannot be read.")
                raise unfit("The e-mail has an attachment that is not text; see `format_options.email.attachments`.")
        elif encoding not in _AS_IT_IS | _DECODED:
            raise unfit("A part of the e-mail has an unknown transfer encoding.")
        elif kind.startswith("multipart/"):
            self._parts(message, body, end, depth)
        elif kind.startswith("message/") and kind != _STATUS:
            if encoding in _DECODED:
                raise unfit("An e-mail inside the e-mail is encoded.")
            self.part(body, end, depth + 1)
        else:
            self._body(message, encoding, body, end, html=kind == "text/html")

    def _is_attachment(self, message: email.message.Message) -> bool:
        return message.get_content_maintype() not in ("text", "multipart", "message")

    def _parts(self, message: email.message.Message, start: int, end: int, depth: int) -> None:
        boundary = message.get_boundary()
        if not boundary:
            raise malformed("e-mail", self._source, start)
        line = re.compile(rf"(?:\A|^|(?<=\n))--{re.escape(boundary)}(--)?[ \t]*(?:\r?\n|\r|\Z)", re.MULTILINE)
        marks = []
        for mark in line.finditer(self._source, start, end):
            marks.append(mark)
            if mark[1]:
                break
        if not marks or not marks[-1][1] or len(marks) < 2:
            raise malformed("e-mail", self._source, end)
        self._plain_text(start, marks[0].start())
        for mark, following in pairwise(marks):
            stop = following.start()
            stop -= self._source.endswith("\n", mark.end(), stop)
            stop -= self._source.endswith("\r", mark.end(), stop)
            self.part(mark.end(), max(stop, mark.end()), depth + 1)
        self._plain_text(marks[-1].end(), end)

    def _body(self, message: email.message.Message, encoding: str, start: int, end: int, *, html: bool) -> None:
        raw = self._source[start:end]
        if encoding in _DECODED:
            raw = raw.rstrip("\r\n") if encoding == "base64" else raw
            transfer = Transfer(encoding, message.get_content_charset("utf-8"), self._newline)
            try:
                content = transfer.decode(raw)
            except ValueError:
                content = None
            if content is None:
                raise unfit("A part of the e-mail cannot be decoded.")
        else:
            transfer, content = Transfer(), raw
        self._builder.block(start, start + len(raw), content, transfer)
        self._builder.show(NEW_VALUE)
        if html:
            reader = HtmlReader(self._builder, self._options.html)
            reader.read(0, len(content))
            reader.end()
        else:
            self._lines(content)

    def _plain_text(self, start: int, end: int) -> None:
        """Add what stands before the first part or after the last one."""
        if self._source[start:end].strip():
            content = self._source[start:end]
            self._builder.block(start, end, content, Transfer())
            self._builder.show(NEW_VALUE)
            self._lines(content)

    def _lines(self, content: str) -> None:
        """Add lines. The marks of quoted lines are not in the view, so that quoted text reads on."""
        for line in _LINE.finditer(content):
            if line[2]:
                self._builder.value(*line.span(2), "plain")
            if line[3]:
                self._builder.show("\n")
