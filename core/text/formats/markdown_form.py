"""The format `markdown`: CommonMark with tables, HTML and front matter. Texts, code, targets and titles are values.

The marks of blocks, fences, emphasis, links and cells are kept. A value ends with its line. Texts follow one another in
the view as a reader sees them, without emphasis; targets, titles and attributes of HTML come after them.

Front matter is TOML or YAML. Python's `tomllib` says whether a text is TOML. The events of PyYAML have the place and
the value of each YAML scalar.
"""

import re
import tomllib
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

import yaml

from core.text.formats.builder import NEW_VALUE, Builder, FormatOptions, label_of, malformed, unfit
from core.text.formats.codecs import BOOL, CODECS, MERGE, NULL, STRING, implicit_type
from core.text.formats.html_form import HtmlReader

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


_PREFIX = re.compile(
    r"(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])|#{1,6}(?=[ \t])|\[[ xX]\](?=[ \t])))*[ \t]*", re.ASCII
)
_FENCE = re.compile(r"(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)
_BLANK = re.compile(r"^[ \t>]*\r?$", re.MULTILINE)
_TABLE_RULE = re.compile(
    r"[ \t>]*+(?:\|[ \t]*+)?:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+(?:\|[ \t]*+)?\r?$", re.MULTILINE
)
_TICKS = re.compile(r"`+")
_SPECIAL = re.compile(r"\r?\n|\\[!-/:-@\[-`{-~]|`+|<|\]\(|\]\[|\||\*+|~~|_+")
_BEFORE_EMPHASIS = tuple("*~([\"'")
_AFTER_NAMES = tuple("@./-")
_AUTOLINK = re.compile(
    r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*+|[\w.!#$%&'*+/=?^`{|}~-]++@[A-Za-z0-9.-]++)>", re.ASCII
)
_TAG = re.compile(
    r"</?[A-Za-z][A-Za-z0-9-]*+(?:\s++[a-zA-Z_:@][\w.:-]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]++))?+)*+\s*+/?>"
    r"|<!--|<[!?]"
)
_TITLE = r"(?:\"((?:[^\"\\]|\\.)*+)\"|'((?:[^'\\]|\\.)*+)'|\(((?:[^()\\]|\\.)*+)\))"
_TARGET = r"(?:<([^<>\n]*+)>|((?:[^\s()<]|\([^\s()]*+\))[^\s()]*+(?:\([^\s()]*+\)[^\s()]*+)*+))"
_LINK = re.compile(rf"\]\(\s*+{_TARGET}?+(?:\s++{_TITLE})?+\s*+\)")
_REFERENCE = re.compile(r"\]\[([^\[\]\n]++)\]")
_DEFINITION = re.compile(rf"\[([^\[\]\n]++)\]:[ \t]*+\n?[ \t]*+{_TARGET}(?:\s++{_TITLE})?+[ \t]*+\r?$", re.MULTILINE)

_READERS = {"-": read_yaml, "+": read_toml}
_FRONT_MATTER = re.compile(
    r"\ufeff?(?P<mark>---|\+\+\+)[ \t]*\r?\n(?P<content>(?:(?!(?P=mark)[ \t]*\r?$)[^\n]*\n)*?)(?P=mark)[ \t]*\r?$",
    re.MULTILINE,
)


def read_front_matter(builder: Builder) -> int:
    """Add the values of the front matter, and return its end; where there is none, the start of the document.

    Front matter is YAML between lines `---`, or TOML between lines `+++`. The scalars and comments are values, and a
    key is the label of its value. Keys that are simple names, anchors and aliases, `null`, `true` and `false` are kept.
    A masked scalar stays a string, in the quotes that it has or in new ones. A masked number or date becomes a string.
    What is not YAML or TOML is read as Markdown.

    Raises InvalidInput for front matter that is nested too deep, or that has a type of its own for a scalar.
    """
    source = builder.content
    match = _FRONT_MATTER.match(source)
    if match is None or not _READERS[match["mark"][0]](builder, *match.span("content")):
        return int(source.startswith("\ufeff"))
    builder.show(NEW_VALUE)
    return match.end()


def read(builder: Builder, options: FormatOptions) -> None:
    """Add the values of the document. Raises InvalidInput, also for HTML in it."""
    MarkdownReader(builder, options).read()


class MarkdownReader:
    """Reads a document from its start to its end, one construct after the other."""

    def __init__(self, builder: Builder, options: FormatOptions) -> None:
        self._builder = builder
        self._source = builder.content
        self._html = HtmlReader(builder, options.html)
        self._blank = [match.start() for match in _BLANK.finditer(self._source)]
        self._ticks: dict[int, list[int]] = defaultdict(list)
        for match in _TICKS.finditer(self._source):
            self._ticks[len(match.group())].append(match.start())
        self._headers: list[str] | None = None  # of the table around the line
        self._column = 0
        self._labelled = False
        self._rows_to_header = 0
        self._later: list[tuple[int, int, str, str]] = []

    def read(self) -> None:
        at = searched = self._line(read_front_matter(self._builder))
        while match := _SPECIAL.search(self._source, searched):
            if match.group()[0] == "\\" or (match.group()[0] == "_" and not self._is_emphasis(*match.span())):
                searched = match.end()
            else:
                self._text(at, match.start())
                at = searched = self._special(match)
        self._text(at, len(self._source))
        self._html.end()
        for start, end, codec, label in self._later:
            self._builder.value(start, end, codec, before=NEW_VALUE + label)

    def _text(self, start: int, end: int, codec: str = "markdown") -> None:
        if start < end:
            self._builder.value(start, end, codec)

    def _is_emphasis(self, start: int, end: int) -> bool:
        """Whether the underscores `start:end` begin or end emphasis. The view has no such marks."""
        before, after = self._source[max(0, start - 1) : start], self._source[end : end + 1]
        opens = not before or before.isspace() or before in _BEFORE_EMPHASIS
        closes = before.isalnum() and not after.isalnum() and after not in _AFTER_NAMES
        return (opens and after.isalnum()) or closes

    def _special(self, match: re.Match[str]) -> int:
        """Read the construct that begins with `match`, and return its end."""
        mark, at = match.group(), match.start()
        if mark.endswith("\n"):
            self._builder.show("\n")
            return self._line(match.end())
        if mark[0] == "`":
            return self._code_span(at, len(mark))
        if mark == "<":
            return self._angle(at)
        if mark == "](" and (link := _LINK.match(self._source, at)):
            self._target(link, 1)
            return link.end()
        if mark == "][" and (reference := _REFERENCE.match(self._source, at)):
            self._later.append((*reference.span(1), "markdown_label", ""))
            return reference.end()
        if mark == "|" and self._headers is not None:
            self._column += 1
            self._cell()
        elif mark[0] not in "*_~":
            self._builder.show(mark)
        return match.end()

    def _line(self, at: int) -> int:
        """Read the marks at the start of a line, and fences and definitions as a whole."""
        source = self._source
        prefix = _PREFIX.match(source, at)
        begin = prefix.end() if prefix else at
        self._builder.show(source[at:begin])
        if fence := _FENCE.match(source, begin):
            return self._fenced(fence)
        if definition := _DEFINITION.match(source, begin):
            self._later.append((*definition.span(1), "markdown_label", ""))
            self._target(definition, 2)
            return definition.end()
        self._table(begin)
        return begin

    def _table(self, at: int) -> None:
        end = self._line_end(at)
        if self._source.find("|", at, end) < 0:
            self._headers = None
        elif self._headers is None and _TABLE_RULE.match(self._source, end + 1):
            self._headers = [cell.strip() for cell in re.split(r"(?<!\\)\|", self._source[at:end])]
            self._rows_to_header = 2  # the header itself, and the rule below it
        if self._headers is not None:
            self._column = 0
            self._labelled = not self._rows_to_header
            self._rows_to_header = max(0, self._rows_to_header - 1)
            self._cell()

    def _cell(self) -> None:
        labelled = self._labelled and self._headers is not None and self._column < len(self._headers)
        label = label_of(self._headers[self._column]) if self._headers and labelled else ""
        self._builder.show(NEW_VALUE + label)

    def _line_end(self, at: int) -> int:
        end = self._source.find("\n", at)
        return len(self._source) if end < 0 else end

    def _fenced(self, fence: re.Match[str]) -> int:
        """Read a block of code, to its closing fence or the end of the document."""
        self._headers = None
        mark = fence.group()
        at, end = fence.end(), self._line_end(fence.end())
        close = re.compile(rf"[ \t>]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*\r?$")
        self._text(at, end, "code")
        while end < len(self._source):
            at, end = end + 1, self._line_end(end + 1)
            self._builder.show("\n")
            if close.match(self._source, at, end):
                break
            self._text(at, end - self._source.endswith("\r", at, end), "code")
        return end

    def _code_span(self, at: int, length: int) -> int:
        """Read a code span, or backticks that stand for themselves."""
        starts = self._ticks[length]
        place = bisect_left(starts, at + length)
        blank = bisect_left(self._blank, at)
        stop = self._blank[blank] if blank < len(self._blank) else len(self._source)
        if place == len(starts) or starts[place] > stop:
            self._builder.show("`" * length)
            return at + length
        self._lines(at + length, starts[place], "code")
        return starts[place] + length

    def _lines(self, start: int, end: int, codec: str) -> None:
        for match in re.compile(r"[^\r\n]+").finditer(self._source, start, end):
            self._builder.show("\n" if match.start() > start else "")
            self._text(*match.span(), codec)

    def _angle(self, at: int) -> int:
        if link := _AUTOLINK.match(self._source, at):
            self._builder.value(*link.span(1), "autolink")
            return link.end()
        if _TAG.match(self._source, at) and (end := self._html.markup(at, len(self._source))):
            return end
        self._builder.show("<")
        return at + 1

    def _target(self, match: re.Match[str], first: int) -> None:
        """Read a target, with or without angle brackets, and the title after it."""
        for group in range(first, first + 5):
            if match[group]:
                codec = "target" if group < first + 2 else "markdown_title"
                self._later.append((*match.span(group), codec, ""))
