"""The format `email`: RFC 5322 and MIME. Headers, texts and HTML are values; the structure of parts is kept.

Addresses and display names in the headers of addresses are masked as a whole. A text part is decoded, and encoded again
in its charset and transfer encoding if something in it is masked. A part that is no text is an attachment: the document
is refused, the attachment dropped, or passed, as the option says. If Python's `email` package sees other parts than
this module, the document is refused, so that no part is released that was not read.
"""

from __future__ import annotations

import email.message
import email.parser
import email.policy
import re
from collections.abc import Iterator
from itertools import pairwise

from core.text.formats.builder import NEW_VALUE, Builder, FormatLimits, malformed, unfit
from core.text.formats.email_headers import headers, read_header
from core.text.formats.html_form import HtmlReader
from core.text.formats.options import FormatOptions
from core.text.formats.transfer import Transfer

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
