"""Builds the `Form` of a document from its values, in order."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass

from core.errors import InvalidInput
from core.text.formats.codecs import CODECS
from core.text.formats.form import CODEC_NAMES, Block, Form
from core.text.formats.transfer import Transfer
from core.text.formats.visible_value import read_value
from core.text.policy import TEXT_CHARS_MAX
from core.text.recogniser import BOUNDARY

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
        self._blocks: list[Block] = []

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
        self._blocks.append(Block(start, end, content, transfer, first, first))

    def form(self) -> Form:
        """Return the form of all that was added."""
        if not self._blocks:
            count = len(self._arrays[0])
            self._blocks.append(Block(0, len(self.source), self.source, Transfer(), 0, count))
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
            self._blocks[-1] = Block(last.start, last.end, last.content, last.transfer, last.first, count)

    def _place(self, start: int, end: int, text: str, codec: int) -> None:
        if len(self._arrays[0]) == self.limits.values_max:
            raise unfit(f"A document has at most {self.limits.values_max} values.")
        place = (start, end, self._viewed, self._viewed + len(text), codec)
        for own, number in zip(self._arrays, place, strict=True):
            own.append(number)
        self.show(text)
