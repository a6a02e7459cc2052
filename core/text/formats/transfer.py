"""Encodings of a part of a document as a whole: the transfer encodings of e-mail."""

from __future__ import annotations

import base64
import binascii
import codecs
import quopri
from dataclasses import dataclass
from email.header import Header

_BASE64_LINE = 76
# Codecs of Python that are no charsets of texts. Those of host names take the square of the length.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"})


def check_charset(name: str) -> None:
    """Raise ValueError for a name that is no charset of an e-mail."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        found = ""
    if not found or found.replace("-", "_") in _NO_CHARSETS:
        raise ValueError("The charset is unknown.")


@dataclass(frozen=True)
class Transfer:
    """How a part is encoded. `kind`: empty (as it is), `base64`, `quoted-printable` or `header` (RFC 2047).

    A character that the charset lacks becomes a question mark.
    """

    kind: str = ""
    charset: str = "utf-8"
    newline: str = "\n"

    @property
    def encoded(self) -> bool:
        return bool(self.kind)

    def encode(self, text: str) -> str:
        if not self.kind:
            return text
        if self.kind == "header":
            return Header(text, "utf-8").encode(linesep=self.newline, maxlinelen=_BASE64_LINE)
        content = text.encode(self.charset, "replace")
        if self.kind == "base64":
            encoded = base64.b64encode(content).decode("ascii")
            lines = [encoded[at : at + _BASE64_LINE] for at in range(0, len(encoded), _BASE64_LINE)]
            return self.newline.join(lines)
        return quopri.encodestring(content).decode("ascii").replace("\r\n", "\n").replace("\n", self.newline)

    def decode(self, text: str) -> str:
        """Return the text of an encoded part. Raises ValueError if it is not in this encoding."""
        try:
            check_charset(self.charset)
            content = text.encode("ascii")
            if self.kind == "base64":
                decoded = base64.b64decode(b"".join(content.split()), validate=True)
            else:
                decoded = quopri.decodestring(content)
            return decoded.decode(self.charset)
        except (UnicodeError, binascii.Error, LookupError) as error:
            raise ValueError("The part cannot be decoded.") from error
