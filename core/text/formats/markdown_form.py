"""The format `markdown`: CommonMark with tables, HTML and front matter. Texts, code, targets and titles are values.

The marks of blocks, fences, emphasis, links and cells are kept. A value ends with its line. Texts follow one another in
the view as a reader sees them, without emphasis; targets, titles and attributes of HTML come after them.
"""

import re
from bisect import bisect_left
from collections import defaultdict

from core.text.formats.builder import NEW_VALUE, Builder, FormatOptions, label_of
from core.text.formats.front_matter import read_toml, read_yaml
from core.text.formats.html_form import HtmlReader

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
