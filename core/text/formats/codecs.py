"""How a value is written in its format: the text that it stands for, and how a replacement is written in its place.

A codec reads the source of a value as its text, with the place in the source of each character. A replacement is
written so that the value stays one value: with the escapes of the format, in quotes where it needs them. What is not
replaced keeps its source, byte for byte. A `Transfer` is the encoding of a part of a document as a whole, as in e-mail.
"""

import base64
import binascii
import codecs
import html
import json
import quopri
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.header import Header
from urllib.parse import quote

import yaml

STRING, BOOL, NULL, MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "bool", "null", "merge"))

_BREAKS = r"(?:\r\n?|\n)[ \t\r\n]*+"
_FOLD = rf"(?:(?<![ \t])|(?<=\\[ \t]))[ \t]*+{_BREAKS}"  # begins once in a run of spaces, so that reading is linear
PLAIN = re.compile(_FOLD)
SINGLE_QUOTED = re.compile(rf"''|{_FOLD}")
DOUBLE_QUOTED = re.compile(rf"\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|{_BREAKS}|[^\r\n]|\Z)|{_FOLD}")
_LETTERS = dict(zip("0abtnvfreNLP_", "\0\a\b\t\n\v\f\r\x1b\x85\u2028\u2029\xa0", strict=True))
_RESOLVER = yaml.SafeLoader("")


def implicit_type(scalar: str) -> str:
    """Return the tag of a plain scalar, such as `tag:yaml.org,2002:int`."""
    return str(_RESOLVER.resolve(yaml.ScalarNode, scalar, (True, False)))


def folded(match: re.Match[str]) -> str:
    """Return what a match of `PLAIN` or `SINGLE_QUOTED` stands for."""
    if match.group() == "''":
        return "'"
    return "\n" * (_breaks(match.group()) - 1) or " "


def unescaped(match: re.Match[str]) -> str:
    """Return what a match of `DOUBLE_QUOTED` stands for. Its escapes are also those of TOML."""
    if match.group()[0] != "\\":
        return folded(match)
    escape = match.group()[1:]
    if escape[:1] in ("x", "u", "U") and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape[:1] in ("\r", "\n"):
        return "\n" * (_breaks(escape) - 1)
    return _LETTERS.get(escape, escape)


def _breaks(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


_SPACES = re.compile(r"\s+")
_JSON_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(["\\/bfnrt]))')
_JSON_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?")
_MARKDOWN_ESCAPE = re.compile(rf"\\[!-/:-@\[-`{{-~]|{_ENTITY.pattern}")
_MARKDOWN_SPECIAL = re.compile(r"[\\`*<>|~&$#]")
_ADDRESS = re.compile(r"[A-Za-z0-9.+_-]+@[A-Za-z0-9.-]+")

Replaced = Callable[[str], str]


@dataclass(frozen=True)
class Written:
    """How the parts of a changed value are written: `before`, kept source by `keep`, replacements by `write`, `after`.

    guard: changes what `write` returns if the character after it would change its meaning.
    """

    write: Replaced
    keep: Replaced = str
    before: str = ""
    after: str = ""
    guard: Callable[[str, str], str] = lambda text, _following: text


@dataclass(frozen=True)
class Codec:
    """`escape` matches what does not stand for itself, None if everything does; `plain` gives what it stands for.

    `written` chooses how replacements are written, from the source of the value and all of its replacements. A value
    that is `whole` is replaced as a whole or not at all.
    """

    written: Callable[[str, Sequence[str]], Written]
    escape: re.Pattern[str] | None = None
    plain: Callable[[re.Match[str]], str] = re.Match.group
    whole: bool = False

    def read(self, raw: str) -> tuple[str, Sequence[int]]:
        """Return the text of a value, and the place in `raw` of each of its characters and of its end."""
        if self.escape is None or self.escape.search(raw) is None:
            return raw, range(len(raw) + 1)
        pieces: list[str] = []
        places: list[int] = []
        end = 0
        for match in self.escape.finditer(raw):
            pieces.append(raw[end : match.start()])
            places.extend(range(end, match.start()))
            pieces.append(self.plain(match))
            places.extend([match.start()] * len(pieces[-1]))
            end = match.end()
        pieces.append(raw[end:])
        places.extend(range(end, len(raw) + 1))
        return "".join(pieces), places


def _always(write: Replaced, *, before: str = "", after: str = "") -> Callable[[str, Sequence[str]], Written]:
    written = Written(write, before=before, after=after)
    return lambda _raw, _fills: written


def one_line(text: str) -> str:
    return _SPACES.sub(" ", text)


def _json_plain(match: re.Match[str]) -> str:
    first, second, letter = match.groups()
    if letter:
        return _JSON_LETTERS.get(letter, letter)
    high = int(first, 16)
    if second and 0xD800 <= high < 0xDC00:
        return chr(0x10000 + ((high - 0xD800) << 10) + int(second, 16) - 0xDC00)
    return chr(high) + (chr(int(second, 16)) if second else "")


def _json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _json_number(_raw: str, fills: Sequence[str]) -> Written:
    if len(fills) == 1 and _JSON_NUMBER.fullmatch(fills[0]):
        return Written(str)
    return Written(_json_string, keep=_json_string, before='"', after='"')


def _csv_quoted(text: str) -> str:
    return text.replace('"', '""')


def _csv_bare(_raw: str, fills: Sequence[str]) -> Written:
    if any(re.search(r"""["',;\t|\r\n]|^\s|\s$""", fill) for fill in fills):
        return Written(_csv_quoted, keep=_csv_quoted, before='"', after='"')
    return Written(str)


def _entity(match: re.Match[str]) -> str:
    return html.unescape(match.group())


def _html_text(text: str) -> str:
    return html.escape(text, quote=False)


def _html_kept(raw: str) -> str:
    """An `&` at the end would become an entity with a replacement that follows."""
    return re.sub(r"&(#?[xX]?)\Z", r"&amp;\1", raw)


def _html_after_bracket(text: str) -> str:
    return f"&#{ord(text[0])};" + _html_text(text[1:])


def _tag_name(text: str) -> str:
    return "x-" + re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-").lower()


def _html_bare(text: str) -> str:
    return text.replace('"', "&quot;")


def _code(text: str) -> str:
    """Without quotes, escapes and brackets that could end a string, a comment or an element."""
    return re.sub(r"""[<>"'`\\\r\n]|--|\*/""", " ", text)


def _markdown_plain(match: re.Match[str]) -> str:
    return match.group()[1:] if match.group()[0] == "\\" else _entity(match)


def _markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\g<0>", one_line(text))


def _markdown_guard(text: str, following: str) -> str:
    """In `[NAME](`, `[NAME][` and `[NAME]:` the brackets would be those of a link."""
    return re.sub(r"[\[\]]", r"\\\g<0>", text) if following in ("(", "[", ":") else text


def _markdown_title(text: str) -> str:
    return re.sub(r"[\"'()]", r"\\\g<0>", _markdown(text))


def _markdown_label(text: str) -> str:
    """Another label than the fill itself, which would become a link wherever it stands."""
    return "masked " + re.sub(r"[\[\]\\`<>]", "", one_line(text))


def _yaml_single(text: str) -> str:
    return one_line(text).replace("'", "''")


def _yaml_kept(raw: str) -> str:
    return raw.replace("'", "''")


def _yaml_line(text: str) -> str:
    return one_line(text).strip()


def _yaml_typed(raw: str, fills: Sequence[str]) -> Written:
    """A number stays one of its kind where the fill is one."""
    number = len(fills) == 1 and _JSON_NUMBER.fullmatch(fills[0])
    if number and implicit_type(fills[0]) == implicit_type(raw):
        return Written(str)
    return Written(_yaml_single, before="'", after="'")


def _target(text: str) -> str:
    return quote(text, safe=":/?#@!$&*+,;=~-._%")


def _autolink(_raw: str, fills: Sequence[str]) -> Written:
    if len(fills) == 1 and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]+:[^\s<>]*|[\w.+-]+@[\w.-]+", fills[0], re.ASCII):
        return Written(str)
    return Written(_target, before="mailto:")


def _bare_word(text: str) -> str:
    return re.sub(r"""[\s"'=,;]+""", "_", text)


def _backslashed(text: str) -> str:
    return re.sub(r'[\\"]', r"\\\g<0>", one_line(text))


def _address(text: str) -> str:
    if _ADDRESS.fullmatch(text):
        return text
    return (re.sub(r"[^A-Za-z0-9._-]+", "", text) or "masked") + "@masked.invalid"


def _phrase(_raw: str, _fills: Sequence[str]) -> Written:
    return Written(_backslashed, keep=_backslashed, before='"', after='"')


CODECS: dict[str, Codec] = {
    "plain": Codec(_always(one_line)),
    "code": Codec(_always(_code)),
    "json_string": Codec(_always(_json_string), _JSON_ESCAPE, _json_plain),
    "json_number": Codec(_json_number, whole=True),
    "csv_quoted": Codec(_always(_csv_quoted), re.compile('""'), lambda _: '"'),
    "csv_bare": Codec(_csv_bare),
    "html_text": Codec(lambda _raw, _fills: Written(_html_text, _html_kept), _ENTITY, _entity),
    "html_after_bracket": Codec(lambda _raw, _fills: Written(_html_after_bracket, _html_kept), _ENTITY, _entity),
    "html_tag_name": Codec(_always(_tag_name), whole=True),
    "html_attribute": Codec(lambda _raw, _fills: Written(html.escape, _html_kept), _ENTITY, _entity),
    "html_bare": Codec(lambda _raw, _fills: Written(html.escape, _html_bare, '"', '"'), _ENTITY, _entity),
    "markdown": Codec(
        lambda _raw, _fills: Written(_markdown, guard=_markdown_guard), _MARKDOWN_ESCAPE, _markdown_plain
    ),
    "markdown_title": Codec(_always(_markdown_title), _MARKDOWN_ESCAPE, _markdown_plain),
    "markdown_label": Codec(_always(_markdown_label), _MARKDOWN_ESCAPE, _markdown_plain, whole=True),
    "yaml_plain": Codec(lambda _raw, _fills: Written(_yaml_single, _yaml_kept, "'", "'"), PLAIN, folded),
    "yaml_typed": Codec(_yaml_typed, whole=True),
    "yaml_line": Codec(_always(_yaml_line)),
    "single_quoted": Codec(_always(_yaml_single), SINGLE_QUOTED, folded),
    "double_quoted": Codec(_always(_json_string), DOUBLE_QUOTED, unescaped),
    "toml_bare": Codec(_always(_json_string, before='"', after='"'), whole=True),
    "target": Codec(_always(_target), _ENTITY, _entity),
    "autolink": Codec(_autolink, whole=True),
    "bare_word": Codec(_always(_bare_word)),
    "backslashed": Codec(_always(_backslashed), re.compile(r"\\."), lambda match: match.group()[1]),
    "address": Codec(_always(_address), whole=True),
    "phrase": Codec(_phrase, whole=True),
}


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
