"""Adds the values of TOML or YAML to a builder.

Python's `tomllib` says whether a text is TOML. The events of PyYAML have the place and value of each YAML scalar.
"""

import re
import tomllib
from dataclasses import dataclass

import yaml

from core.text.formats.builder import NEW_VALUE, Builder, label_of, malformed, unfit
from core.text.formats.codecs import BOOL, CODECS, MERGE, NULL, STRING, implicit_type

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
_TOML_CODECS = {
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
    reader = _TomlReader(builder)
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


class _TomlReader:
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
            name = CODECS[_TOML_CODECS[form]].read(match[form])[0]
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
            self._builder.value(*line.span(), _TOML_CODECS[form], before=before)
            before = "\n"


_SIMPLE_NAME = re.compile(r"[\w.-]+")
_PROPERTIES = re.compile(r"(?:[&!]\S*+|(?<=\s)#[^\r\n]*+|\s++)*+")
_COMMENT = re.compile(r"(?<!\S)#[^\r\n]+")
_YAML_CODECS = {"'": "single_quoted", '"': "double_quoted"}
_STANDARD = "tag:yaml.org,2002:"
_KEPT_TYPES = (BOOL, MERGE, NULL)


@dataclass
class _Collection:
    """A list or mapping that is being read. names: the keys around it. key: that of the next value, if it was read."""

    mapping: bool
    names: tuple[str, ...]
    key: str | None = None

    def labels(self) -> tuple[str, ...]:
        return (*self.names, self.key)[-2:] if self.mapping and self.key is not None else self.names

    def follow(self, scalar: str) -> None:
        """Note that a scalar, alias or collection was read: a key or its value."""
        if self.mapping:
            self.key = scalar if self.key is None else None


def read_yaml(builder: Builder, start: int, end: int) -> bool:
    """Add the values of `start:end`. Return False, with nothing added, if it is not one document of YAML.

    Raises InvalidInput beyond the limits, and for a scalar with a tag other than `!!str`, which no mask could have.
    """
    text = builder.content[start:end]
    if not _is_document(text, builder.limits.depth_max):
        return False
    reader = _YamlReader(builder, start)
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):  # again: all events together take a hundred times the text
        reader.read(event)
    reader.comments(end)
    return True


def _is_document(text: str, depth_max: int) -> bool:
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > depth_max:
                raise unfit(f"Front matter is nested at most {depth_max} deep.")
            if isinstance(event, yaml.DocumentStartEvent | yaml.DocumentEndEvent) and event.explicit:
                return False
    except (yaml.YAMLError, UnicodeError):
        return False
    return True


class _YamlReader:
    """Takes the events of a document that begins at `base`. `comments` adds those before a place."""

    def __init__(self, builder: Builder, base: int) -> None:
        self._builder = builder
        self._base = base
        self._at = base  # all before it was read
        self._stack: list[_Collection] = [_Collection(mapping=False, names=())]

    def read(self, event: yaml.Event) -> None:
        inner = self._stack[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            if event.tag and event.tag != "!" and not event.tag.startswith(_STANDARD):
                raise unfit("The front matter has a YAML tag that is not of the YAML standard.")
            self._stack.append(_Collection(isinstance(event, yaml.MappingStartEvent), inner.labels()))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._stack.pop()
            self._stack[-1].follow("")
        elif isinstance(event, yaml.AliasEvent):
            inner.follow("")
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, inner)
            inner.follow(event.value)

    def comments(self, end: int) -> None:
        """Add the comments between what was read and `end`."""
        for match in _COMMENT.finditer(self._builder.content, self._at, end):
            self._builder.value(*match.span(), "plain", before=NEW_VALUE)
        self._at = end

    def _scalar(self, event: yaml.ScalarEvent, inner: _Collection) -> None:
        content = self._builder.content
        start, end = self._base + event.start_mark.index, self._base + event.end_mark.index
        if match := _PROPERTIES.match(content, start, end):
            start = match.end()
        if event.tag not in (None, "!", STRING):
            raise unfit("The front matter has a scalar with a YAML tag other than `!!str`.")
        self.comments(start)
        style, is_key = event.style or "", inner.mapping and inner.key is None
        label = "" if is_key else label_of(*inner.labels())
        kind = implicit_type(event.value) if event.implicit[0] and not style else STRING
        if start == end or (is_key and _SIMPLE_NAME.fullmatch(event.value)) or kind in _KEPT_TYPES:
            self._at = end
        elif style in ("|", ">"):
            self._block(start, end, label)
        else:
            codec = _YAML_CODECS.get(style, "yaml_plain" if kind == STRING else "yaml_typed")
            self._flow(start + bool(style), end - bool(style), codec, label, event.value)
            self._at = end

    def _flow(self, start: int, end: int, codec: str, label: str, value: str) -> None:
        if CODECS[codec].read(self._builder.content[start:end])[0] != value:
            raise malformed("YAML", self._builder.content, start)
        self._builder.value(start, end, codec, before=NEW_VALUE + label)

    def _block(self, start: int, end: int, label: str) -> None:
        """Read a literal or folded scalar line by line. Its first line is its header, with a comment."""
        header = _LINE.match(self._builder.content, start, end)
        self.comments(header.end() if header else start)
        before = NEW_VALUE + label
        for line in _LINE.finditer(self._builder.content, self._at, end):
            self._builder.value(*line.span(), "yaml_line", before=before)
            before = "\n"
        self._at = end
