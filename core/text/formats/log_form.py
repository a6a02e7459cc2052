"""The format `log`: each line is text of its own, and no find crosses a line.

The time stamp at the start of a line, a time stamp in brackets and the names of levels are kept, and so are the keys of
`key=value`. Such a value is read by itself, after its key. A value without quotes gets a replacement without spaces.
JSON at the end of a line is read as JSON.
"""

import json
import re

from core.text.formats.builder import NEW_VALUE, Builder, FormatOptions, label_of
from core.text.formats.json_form import JsonReader

_LINE = re.compile(r"[^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
_TIME = r"\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
_DAY = r"\d{4}[-/]\d{2}[-/]\d{2}|\d{2}[-/.]\d{2}[-/.]\d{4}"
_START = re.compile(
    rf"(?:<\d{{1,3}}>(?:\d )?)?[\[(]?"
    rf"(?:(?:{_DAY})(?:[T ]{_TIME}(?: ?(?:Z|[+-]\d{{2}}:?\d{{2}}|UTC))?)?|[A-Z][a-z]{{2}} [ \d]\d {_TIME}|{_TIME})"
    rf"(?![\w:])[\])]?",
    re.ASCII,
)
_PART = re.compile(
    r"""
    (?P<kept> \[\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2}[ ][+-]\d{4}\]
            | (?<!\w)(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)(?!\w) )
  | (?<![^\s\[({,;|]) (?P<key>[A-Za-z_][\w.-]{0,63}) =
    (?: "(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)" | '(?P<single>[^']*+)' | (?P<bare>[^\s"'()\[\]{},;|]++) )
    """,
    re.VERBOSE,
)
_CODECS = {"double": "backslashed", "single": "bare_word", "bare": "bare_word"}
_PAYLOAD = re.compile(r"\{\s*[\"}]|\[\s*[\[{\"]")


def read(builder: Builder, options: FormatOptions) -> None:
    """Add the parts of each line. Raises InvalidInput for JSON that is nested too deep."""
    source = builder.source
    reader = JsonReader(builder, options.json)
    for line in _LINE.finditer(source, int(source.startswith("\ufeff"))):
        builder.show(NEW_VALUE)
        at, end = line.span()
        if start := _START.match(source, at, end):
            builder.show(start.group())
            at = start.end()
        payload = _payload(source, at, end)
        _add_text(builder, at, end if payload is None else payload)
        if payload is not None:
            reader.value(payload)


def _add_text(builder: Builder, at: int, end: int) -> None:
    for part in _PART.finditer(builder.source, at, end):
        builder.value(at, part.start(), "plain")
        at = part.end()
        if part["kept"]:
            builder.show(part["kept"])
            continue
        form = part.lastgroup or ""
        # With an equals sign: recognisers of credentials tell `session=` from a word of a sentence.
        label = label_of(part["key"]).replace(": ", "=")
        builder.value(*part.span(form), _CODECS[form], before=NEW_VALUE + label)
        builder.show(NEW_VALUE)
    builder.value(at, end, "plain")


def _payload(source: str, at: int, end: int) -> int | None:
    """Return the start of JSON that ends with the line, None if there is none. Only one start is tried."""
    match = _PAYLOAD.search(source, at, end)
    if match is None:
        return None
    try:
        json.loads(source[match.start() : end], parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return match.start()


def _refuse(name: str) -> None:
    raise ValueError(name)
