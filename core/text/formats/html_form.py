"""The format `html`: texts and the values of attributes are values; tags, and attributes of structure, are kept.

The document is read as the HTML standard's tokenizer reads it, so that every character is in a tag, a text, a comment,
a script or a style. What is not clearly markup is read as text. Texts follow one another in the view as a reader sees
them; the values of attributes come after them, with their names as labels.
"""

import re

from core.text.formats.builder import NEW_VALUE, Builder, FormatOptions, HtmlChoices, label_of, unfit


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


INLINE = _names(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q rp rt ruby s samp small
    span strike strong sub sup time tt u var wbr
    """
)
TEXT_ONLY = frozenset({"textarea", "title"})
RAW_TEXT = TEXT_ONLY | {"script", "style", "xmp", "iframe", "noembed", "noframes"}
ELEMENTS = (
    INLINE
    | RAW_TEXT
    | _names(
        """
    address applet area article aside audio base basefont blockquote body br button canvas caption center col
    colgroup datalist dd details dialog dir div dl dt embed fieldset figcaption figure footer form frame
    frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html img input legend li link main map marquee menu meta
    meter nav nobr noscript object ol optgroup option output p param picture plaintext pre progress search
    section select slot source summary svg table tbody td template tfoot th thead tr track ul video
    """
    )
)
# Their values are names of structure, numbers or key words.
KEPT_ATTRIBUTES = _names(
    """
    align autocomplete bgcolor border cellpadding cellspacing charset checked class color cols colspan decoding
    dir disabled enctype for headers height hidden http-equiv id lang loading max maxlength media method min
    minlength name rel role rows rowspan scope selected size step style tabindex target type valign viewbox
    width xmlns
    """
)
FIELDS = _names("input select textarea")
NAMING_TYPES = _names("password email tel")  # of a field, which say what its value is

_S = r"\t\n\f\r "
_NAME = re.compile(rf"[a-zA-Z][^{_S}/>]*+")
_GAP = re.compile(rf"[{_S}/]*+")
_ATTRIBUTE = re.compile(
    rf"""((?:=|[^{_S}/>=])[^{_S}/>=]*+)"""
    rf"""(?:[{_S}]*+=[{_S}]*+(?:"([^"]*+)"|'([^']*+)'|([^{_S}>"'][^{_S}>]*+)|(?=>)))?+"""
)
_OPEN_VALUE = re.compile(rf"[{_S}]*+=[{_S}]*+[\"']")
_SANE_NAME = re.compile(r"[a-zA-Z_:@*#.(\[-][a-zA-Z0-9_:.()\[\]-]*+")
_COMMENT_END = re.compile(r"--!?>")
_DOCTYPE = re.compile(
    r"<!doctype\s+html\s*(?:(?:public|system)\s*(?:\"(?:-//W3C//|http://www\.w3\.org/)[^\"<>]*\"\s*)+)?>", re.I
)
_ATTRIBUTE_CODECS = {2: "html_attribute", 3: "html_attribute", 4: "html_bare"}


def read(builder: Builder, options: FormatOptions) -> None:
    """Add the values of the document. Raises InvalidInput for a script or comment if an option refuses it."""
    reader = HtmlReader(builder, options.html)
    reader.read(0, len(builder.content))
    reader.end()


class HtmlReader:
    """Adds the values of HTML, in parts of the content of a builder. `end` adds the values of attributes."""

    def __init__(self, builder: Builder, options: HtmlChoices) -> None:
        self._builder = builder
        self._options = options
        self._content = builder.content
        self._attributes: list[tuple[int, int, str, str]] = []
        self._headers: dict[int, str] = {}
        self._column = 0
        self._in_header = False
        self._label = ""  # the text of the last `dt` or `label`, until a value follows it
        self._in_label = False

    def read(self, at: int, end: int) -> None:
        """Add the values of `at:end`."""
        content = self._content
        after_bracket = False
        while at < end:
            bracket = content.find("<", at, end)
            bracket = end if bracket < 0 else bracket
            self._text(at, bracket, "html_after_bracket" if after_bracket else "html_text")
            at = bracket
            if at < end:
                after = self.markup(at, end)
                after_bracket = after is None
                at = at + 1 if after is None else after
                if after_bracket:
                    self._builder.show("<")

    def end(self) -> None:
        """Add the values of attributes that were read."""
        for start, end, codec, label in self._attributes:
            self._builder.value(start, end, codec, before=NEW_VALUE + label)
        self._attributes.clear()

    def markup(self, at: int, end: int) -> int | None:
        """Read the tag or comment that begins at `at`, and return its end; None if the character is text."""
        content = self._content
        if content.startswith("<!--", at):
            return self._comment(at, end)
        if content.startswith(("<!", "<?"), at):
            if match := _DOCTYPE.match(content, at, end):
                return match.end()
            return self._until_bracket(at + 2, end)
        if content.startswith("</", at):
            if _NAME.match(content, at + 2, end):
                return self._tag(at, at + 2, end)
            return None if at + 2 == end else self._until_bracket(at + 2, end)
        return self._tag(at, at + 1, end) if _NAME.match(content, at + 1, end) else None

    def _text(self, start: int, end: int, codec: str) -> None:
        if start < end:
            if self._in_header:
                name = self._headers.get(self._column, "")
                self._headers[self._column] = (name + self._content[start : min(end, start + 64)])[:64]
            if self._in_label:
                self._label = (self._label + self._content[start : min(end, start + 64)])[:64]
            self._builder.value(start, end, codec)

    def _comment(self, at: int, end: int) -> int:
        content, start = self._content, at + 4
        if content.startswith((">", "->"), start):
            return content.index(">", start) + 1
        match = _COMMENT_END.search(content, start, end)
        self._hidden(start, match.start() if match else end, self._options.comments)
        return match.end() if match else end

    def _until_bracket(self, start: int, end: int) -> int:
        bracket = self._content.find(">", start, end)
        self._hidden(start, end if bracket < 0 else bracket, self._options.comments)
        return end if bracket < 0 else bracket + 1

    def _hidden(self, start: int, end: int, action: str) -> None:
        """Add a comment, script or style."""
        if start == end:
            return
        if action == "refuse":
            raise unfit("The document has a script, style or comment, which the options refuse.")
        if action == "drop":
            self._builder.cut(start, end, "")
        else:
            self._builder.value(start, end, "code", before=NEW_VALUE)
            self._builder.show(NEW_VALUE)

    def _tag(self, at: int, name_at: int, end: int) -> int:
        """Read a tag, and return its end. One that is not closed is text, to the end."""
        content = self._content
        name = _NAME.match(content, name_at, end)
        place = name.end() if name else end
        tag = content[name_at:place].lower()
        attributes: list[re.Match[str]] = []
        while True:
            gap = _GAP.match(content, place, end)
            place = gap.end() if gap else place
            if place < end and content[place] == ">":
                break
            match = _ATTRIBUTE.match(content, place, end)
            if match is None or (match.lastindex == 1 and _OPEN_VALUE.match(content, match.end(), end)):
                self._builder.value(at + 1, end, "code", before=NEW_VALUE)
                return end
            attributes.append(match)
            place = match.end()
        opening = content[at + 1] != "/"
        self._show_break(tag, opening)
        self._values(tag, name_at, attributes)
        if opening and tag in RAW_TEXT:
            return self._raw(tag, place + 1, end)
        return place + 1

    def _values(self, tag: str, name_at: int, attributes: list[re.Match[str]]) -> None:
        known = tag in ELEMENTS
        if not known:
            self._builder.value(name_at, name_at + len(tag), "html_tag_name", before=" ")
            self._builder.show(" ")
        named = {match[1].lower(): match[match.lastindex or 0] for match in attributes if (match.lastindex or 0) > 1}
        hints = [named.get("name") or named.get("placeholder") or named.get("property") or ""]
        field_type = named.get("type", "").lower()
        if tag in FIELDS and field_type != "hidden":
            hints += [self._label, field_type if field_type in NAMING_TYPES else ""]
            self._label, self._in_label = "", False
        for match in attributes:
            name, kind = match[1].lower(), match.lastindex or 0
            if (kind < 2 and not known) or not _SANE_NAME.fullmatch(name):
                self._builder.value(*match.span(1), "html_tag_name", before=" ")
                self._builder.show(" ")
            if kind > 1 and name not in KEPT_ATTRIBUTES:
                label = label_of(*filter(None, hints), name) if name in ("value", "content") else label_of(name)
                self._attributes.append((*match.span(kind), _ATTRIBUTE_CODECS[kind], label))

    def _show_break(self, tag: str, opening: bool) -> None:
        """Separate in the view what a reader sees apart, and put the header of a column before its cells."""
        self._in_header = False
        if tag in ("dt", "label"):
            self._in_label = opening
            self._label = "" if opening else self._label
        elif tag == "dd":
            self._in_label = False
        if tag == "tr" and opening:
            self._column = 0
        if tag in ("td", "th") and opening:
            self._column += 1
            self._in_header = tag == "th"
            if self._in_header:
                self._headers.pop(self._column, None)
            label = label_of(self._headers.get(self._column, "")) if tag == "td" else ""
            self._builder.show(NEW_VALUE + label)
        elif tag in ("dd", "textarea") and opening:
            self._builder.show(NEW_VALUE + label_of(self._label))
        elif tag == "table" and opening:
            self._headers.clear()
        elif tag not in INLINE:
            self._builder.show("\n")

    def _raw(self, tag: str, start: int, end: int) -> int:
        """Read the content of an element without markup inside."""
        close = re.compile(rf"</{tag}(?=[{_S}/>])", re.IGNORECASE).search(self._content, start, end)
        stop = close.start() if close else end
        if tag in TEXT_ONLY:
            self._text(start, stop, "html_text")
        else:
            self._hidden(start, stop, self._options.scripts if tag in ("script", "style") else "mask")
        return stop
