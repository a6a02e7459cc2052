"""Reads a document of a format: the options of a request, the builder of its `Form`, and the table of formats.

The front end makes the options from a request; each format reads its own. A format is one module and one row of
`FORMATS`, and adds the values of a document to a `Builder`, in order.
"""

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType

from core.errors import InvalidInput
from core.text.formats.codecs import CODECS, Transfer
from core.text.formats.form import CODEC_NAMES, Form, SourceBlock, read_value
from core.text.policy import ENTITIES, FILLS, TEXT_CHARS_MAX
from core.text.recogniser import BOUNDARY
from core.text.segment import visible

MASK, KEEP, DROP = "mask", "keep", "drop"
ACTIONS = (MASK, KEEP, DROP)
HEADERS = ("auto", "yes", "no")
DELIMITERS = {"auto": "", "comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
HIDDEN_TEXT = ("mask", "drop", "refuse")  # of scripts, styles and comments
ATTACHMENTS = ("refuse", "drop", "pass")


@dataclass(frozen=True)
class Action:
    """What happens to a value: `mask` it as text, `keep` it, `drop` it, or with a `type` mask all of it as this type.

    Raises InvalidInput for an unknown action or type, and for a type beside `keep` or `drop`.
    """

    action: str = MASK
    type: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidInput(f"An action is one of: {', '.join(ACTIONS)}.", field="action")
        if self.type and (self.type not in ENTITIES or self.action != MASK):
            raise InvalidInput(
                f"A type belongs to the action `{MASK}` and is one of: {', '.join(ENTITIES)}.", field="type"
            )


@dataclass(frozen=True)
class JsonChoices:
    """rules: a path (`core.text.formats.json_form`) and its action; the first that matches decides. lines: JSON
    Lines."""

    rules: tuple[tuple[str, Action], ...] = ()
    lines: bool = False


@dataclass(frozen=True)
class CsvChoices:
    """columns: the name or number (from 0) of a column, and its action. header: whether the first row has names.

    With `auto`, the first row gives labels if it looks like names, and is sanitised like any other row.
    """

    columns: tuple[tuple[str | int, Action], ...] = ()
    header: str = "auto"
    delimiter: str = "auto"


@dataclass(frozen=True)
class HtmlChoices:
    """What happens to scripts and styles, and to comments: `mask` them as text, `drop` or `refuse` them."""

    scripts: str = "mask"
    comments: str = "mask"


@dataclass(frozen=True)
class EmailChoices:
    """What happens to an attachment that is not text: `refuse` the document, `drop` the attachment, or `pass` it."""

    attachments: str = "refuse"


@dataclass(frozen=True)
class FormatOptions:
    """The options of each format. A format ignores those of others."""

    json: JsonChoices = field(default_factory=JsonChoices)
    csv: CsvChoices = field(default_factory=CsvChoices)
    html: HtmlChoices = field(default_factory=HtmlChoices)
    email: EmailChoices = field(default_factory=EmailChoices)

    @property
    def keeps(self) -> bool:
        """Whether an option keeps text that the policy would mask."""
        actions = [action for _, action in (*self.json.rules, *self.csv.columns)]
        return (
            any(each.action == KEEP for each in actions) or self.email.attachments == "pass" or self.csv.header == "yes"
        )


LABEL_CHARS_MAX = 64
NEW_VALUE = f"\n{BOUNDARY}\n"

_CODEC_NUMBERS = {name: number for number, name in enumerate(CODEC_NAMES)}
_MEET = re.compile(r"\w[\d+]|\d\w")
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+")


@dataclass(frozen=True)
class FormatLimits:
    """values_max: values in a document. depth_max: nested arrays, objects or parts. parts_max: parts of an e-mail."""

    values_max: int = 200_000
    depth_max: int = 100
    parts_max: int = 100


def unfit(detail: str) -> InvalidInput:
    """Return the error for a document that cannot be used. `detail` is a sentence of the gateway's own."""
    return InvalidInput(detail, field="text")


def malformed(what: str, source: str, place: int) -> InvalidInput:
    """Return the error for a document that is not in its format. It shows the position and no part of the document."""
    line = source.count("\n", 0, place) + 1
    column = place - source.rfind("\n", 0, place)
    return unfit(f"The document is not valid {what}, at line {line}, column {column}.")


def label_of(*names: str) -> str:
    """Return names such as keys as the words of a label: `passport_no` and `passportNo` give `passport no: `."""
    words = " ".join(" ".join(_WORD_ENDS.sub(" ", name[:LABEL_CHARS_MAX]).split()) for name in names).strip()
    return words[-LABEL_CHARS_MAX:].lower() + ": " if words else ""


class Builder:
    """Takes the values of `content`, which is `source` unless a block has begun. Raises InvalidInput beyond `limits`.

    Values may be added in any order. Recognisers read them in this order.
    """

    def __init__(self, source: str, limits: FormatLimits) -> None:
        self.source = source
        self.limits = limits
        self.content = source
        self._view: list[str] = []
        self._viewed = 0
        self._arrays = [array("q") for _ in range(5)]
        self._types: dict[int, str] = {}
        self._cuts: dict[int, str] = {}
        self._blocks: list[SourceBlock] = []

    def value(self, start: int, end: int, codec: str, *, before: str = "", kind: str = "") -> None:
        """Add the value `start:end`, after the text `before` in the view. `kind`: mask all of it, as this type.

        A value without letters and digits is only shown. Where a digit meets a letter or digit of the value
        before, the view has a space between them: a recogniser would take `late` and `192.0.2.1` for one word.
        """
        text, _ = read_value(CODECS[codec], self.content[start:end])
        if not before and text and self._view and _MEET.fullmatch(self._view[-1][-1] + text[0]):
            before = " "
        self.show(before)
        if not (kind and text.strip()) and not any(map(str.isalnum, text)):
            self.show(text)
            return
        if kind:
            self._types[len(self._arrays[0])] = kind
        self._place(start, end, text, _CODEC_NUMBERS[codec])

    def show(self, text: str) -> None:
        """Add text to the view that is never masked. Raises InvalidInput once the view is too long."""
        if text:
            self._view.append(text)
            self._viewed += len(text)
            if self._viewed > TEXT_CHARS_MAX:
                raise unfit(f"The values of a document with their labels have at most {TEXT_CHARS_MAX} characters.")

    def cut(self, start: int, end: int, replacement: str) -> None:
        """Replace `start:end` by this source."""
        self._cuts[len(self._arrays[0])] = replacement
        self._place(start, end, "", 0)

    def block(self, start: int, end: int, content: str, transfer: Transfer) -> None:
        """Begin a block: `start:end` of the source, which is `content`. The following values are in it."""
        self._end_block()
        self.content = content
        first = len(self._arrays[0])
        self._blocks.append(SourceBlock(start, end, content, transfer, first, first))

    def form(self) -> Form:
        """Return the form of all that was added."""
        if not self._blocks:
            count = len(self._arrays[0])
            self._blocks.append(SourceBlock(0, len(self.source), self.source, Transfer(), 0, count))
        self._end_block()
        starts, ends, view_starts, view_ends, codecs = self._arrays
        return Form(
            self.source,
            "".join(self._view),
            starts,
            ends,
            view_starts,
            view_ends,
            codecs,
            self._types,
            self._cuts,
            tuple(self._blocks),
        )

    def _end_block(self) -> None:
        if self._blocks:
            last = self._blocks[-1]
            count = len(self._arrays[0])
            self._blocks[-1] = SourceBlock(last.start, last.end, last.content, last.transfer, last.first, count)

    def _place(self, start: int, end: int, text: str, codec: int) -> None:
        if len(self._arrays[0]) == self.limits.values_max:
            raise unfit(f"A document has at most {self.limits.values_max} values.")
        place = (start, end, self._viewed, self._viewed + len(text), codec)
        for own, number in zip(self._arrays, place, strict=True):
            own.append(number)
        self.show(text)


TEXT = "text"

# name -> module with `read(builder, options)`, which adds the values of a document
FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "json": "core.text.formats.json_form",
        "csv": "core.text.formats.csv_form",
        "email": "core.text.formats.email_form",
        "markdown": "core.text.formats.markdown_form",
        "html": "core.text.formats.html_form",
        "log": "core.text.formats.log_form",
    }
)
FORMAT_NAMES = (TEXT, *FORMATS)
FORMAT_FILLS = tuple(FILLS)


def check_format_fill(fill: str) -> None:
    """Raise InvalidInput for a fill that is for plain text alone."""
    if fill not in FORMAT_FILLS:
        raise InvalidInput(
            f"Documents of a format other than `{TEXT}` take one of the fills: {', '.join(FORMAT_FILLS)}.",
            field="fill.mode",
        )


def parse(name: str, source: str, options: FormatOptions, limits: FormatLimits) -> Form | None:
    """Return the form of a document, None for plain text. Linear in the document.

    Raises InvalidInput if there is no such format, or the document or an option cannot be used. The error shows the
    position and nothing of the document.
    """
    if name == TEXT:
        return None
    if name not in FORMATS:
        raise InvalidInput(f"The format is one of: {', '.join(FORMAT_NAMES)}.", field="format")
    builder = Builder(source, limits)
    import_module(FORMATS[name]).read(builder, options)
    form = builder.form()
    if visible(form.view) != form.view:
        raise RuntimeError("a view contains hidden characters, so that offsets of masks would be wrong")
    return form
