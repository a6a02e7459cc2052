"""Adds the values of TOML to a builder. Python's `tomllib` says whether a text is TOML."""

from __future__ import annotations

import re
import tomllib

from core.text.formats.builder import NEW_VALUE, Builder, label_of, unfit
from core.text.formats.codecs import CODECS

_TOKEN = re.compile(
    r'''
    \#(?P<comment>[^\r\n]*+)
  | """(?P<lines>(?:[^"\\]|\\.|"{1,2}(?!"))*+)"{3,5}
  | \'\'\'(?P<literal_lines>(?:[^']|'{1,2}(?!'))*+)'{3,5}
  | "(?P<string>[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+)"
  | '(?P<literal>[^'\r\n]*+)'
  | (?P<bare>\d{4}-\d\d-\d\d[ ]\d\d:[\w:.+-]++|[^\s\[\]{},=\#"']++)
  | (?P<mark>[\[\]{}=]|\n)
    ''',
    re.VERBOSE | re.DOTALL,
)
# Strings and comments. One that is not closed reaches to its end, because `tomllib` reads nothing after it.
_QUOTED = re.compile(
    r'''
    """(?:[^"\\]|\\.|"{1,2}(?!"))*+(?:"{3,5}|\\?\Z)
  | \'\'\'(?:[^']|'{1,2}(?!'))*+(?:'{3,5}|\Z)
  | "(?:[^"\\\n]|\\.)*+"?
  | '[^'\n]*+'?
  | \#[^\n]*+
    ''',
    re.VERBOSE | re.DOTALL,
)
_BETWEEN_KEYS = re.compile(r"[=\[\]{},\n]")
# `tomllib` keeps about a kilobyte for each part of a key, and for one of n parts n lists of its parts.
_KEY_MARKS_MAX = 20_000
_KEY_PARTS_MAX = 100
_KEY_FOLLOWS = re.compile(r"[ \t]*[=.]")
_LINE = re.compile(r"[^\r\n]+")
_CODECS = {
    "comment": "plain",
    "lines": "double_quoted",
    "literal_lines": "code",
    "string": "double_quoted",
    "literal": "code",
    "bare": "toml_bare",
}
_KEPT = frozenset({"true", "false"})


def read_toml(builder: Builder, start: int, end: int) -> bool:
    """Add the values of `start:end`. Return False, with nothing added, if it is not TOML.

    Raises InvalidInput beyond the limits, which are checked before the text is parsed.
    """
    _check_keys(builder.content[start:end], min(builder.limits.depth_max, _KEY_PARTS_MAX))
    try:
        tomllib.loads(builder.content[start:end])
    except (ValueError, RecursionError):
        return False
    reader = _Reader(builder)
    for match in _TOKEN.finditer(builder.content, start, end):
        reader.read(match, end)
    return True


def _check_keys(content: str, parts_max: int) -> None:
    """Raise InvalidInput for a key of too many parts, or too many keys. Linear, whether or not it is TOML."""
    bare = _QUOTED.sub("", content)
    if sum(map(bare.count, ".=[")) > _KEY_MARKS_MAX:
        raise unfit(f"Front matter in TOML has at most {_KEY_MARKS_MAX} signs `.`, `=` and `[` outside of strings.")
    if any(piece.count(".") >= parts_max for piece in _BETWEEN_KEYS.split(bare)):
        raise unfit(f"A key of front matter has at most {parts_max} parts.")


class _Reader:
    """Takes the tokens of valid TOML. `_is_value`: an equals sign was read. `_depth`: of arrays and inline tables."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._depth = 0
        self._is_value = False
        self._in_header = False
        self._table = self._key = ""

    def read(self, match: re.Match[str], end: int) -> None:
        form = match.lastgroup or ""
        if form == "mark":
            self._mark(match.group())
        elif form == "comment":
            self._add(form, *match.span(form), "")
        elif self._in_header or _KEY_FOLLOWS.match(self._builder.content, match.end(), end):
            name = CODECS[_CODECS[form]].read(match[form])[0]
            if form != "bare":
                self._add(form, *match.span(form), "")
            if self._in_header:
                self._table, self._key = name, ""
            else:
                self._key = name
        elif match[form] not in _KEPT:
            self._add(form, *match.span(form), label_of(self._table, self._key))

    def _mark(self, mark: str) -> None:
        if mark == "\n":
            if not self._depth:
                self._is_value = self._in_header = False
        elif mark == "=":
            self._is_value = True
        elif not self._depth and not self._is_value:
            self._in_header = True
        elif mark in "[{":
            self._depth += 1
        else:
            self._depth -= 1

    def _add(self, form: str, start: int, end: int, label: str) -> None:
        before = NEW_VALUE + label
        for line in _LINE.finditer(self._builder.content, start, end):
            self._builder.value(*line.span(), _CODECS[form], before=before)
            before = "\n"
