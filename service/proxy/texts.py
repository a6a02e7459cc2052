"""What recognisers read of the texts of a request: JSON in strings by its values, and escapes as what they stand for.

A tenant decides what this costs, so it runs in a process apart (`service.isolation`). The module imports little.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from core.errors import InvalidInput
from core.text.reversible.json_text import JsonValue, json_values, public_form
from core.text.reversible.lexing import as_read
from core.text.reversible.mapping import is_key
from service.proxy.slots import SlotKind

_ESCAPED = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-fA-F]{4})")


class TextLimits(NamedTuple):
    """Of the texts of a request, together: their characters and their number."""

    chars_max: int
    texts_max: int

    def check(self, *, chars: int, texts: int, place: str) -> None:
        """Raise InvalidInput for more of them, up to the one at `place`."""
        if chars > self.chars_max:
            raise InvalidInput(f"A request has at most {self.chars_max} characters of text.", field=place)
        if texts > self.texts_max:
            raise InvalidInput(f"A request has at most {self.texts_max} texts.", field=place)


@dataclass(frozen=True)
class Read:
    """The texts of a slot. `values`: those of its JSON, None for a text as it is. `source`: of that JSON; for a fill
    with a price its public form, which holds no value. `is_inspected`: whether recognisers read the texts, or only what
    they found elsewhere is replaced.

    Only the first texts are written back. After them come `readings`: those that have escapes (`M%C3%BCller`) without
    them. Recognisers read no escapes, and what they find in one writing is masked in the other.
    """

    texts: Sequence[str] = field(repr=False)
    values: Sequence[JsonValue] | None = field(default=None, repr=False)
    source: str = field(default="", repr=False)
    is_inspected: bool = True

    def with_readings(self) -> Read:
        """For masking. A fill with a price would charge the readings, too."""
        read = [reading for text in self.texts if (reading := as_read(text)) != text] if self.is_inspected else []
        return replace(self, texts=[*self.texts, *read]) if read else self


def read_texts(sources: Iterable[tuple[SlotKind, str]], limits: TextLimits, priced: bool) -> list[Read]:
    """Return the texts of slots. A source is the slot's string; for `Kind.VALUE`, its value as JSON.

    `priced`: for a fill with a price. Then every string and number of JSON is a text, and there are no readings.

    Raises InvalidInput for more texts than the limits allow. Its field is the number of the source.
    """
    found = []
    chars = texts = 0
    for number, (kind, source) in enumerate(sources):
        read = _read(kind, source, priced=priced)
        if not priced:
            read = read.with_readings()
        chars += sum(map(len, read.texts))
        texts += len(read.texts)
        limits.check(chars=chars, texts=texts, place=str(number))
        found.append(read)
    return found


def _read(kind: SlotKind, source: str, *, priced: bool) -> Read:
    if kind is SlotKind.VALUE:
        return _json_texts(source, priced=priced)
    if kind is SlotKind.KNOWN:
        return Read([source], is_inspected=False)
    if kind is SlotKind.JSON or source.lstrip().startswith(("{", "[")):
        try:
            own = _json_texts(source, priced=priced)
            if kind is SlotKind.JSON or _has_plain_keys(source):
                return own
        except InvalidInput:
            pass  # models also write other text where JSON is expected
    return Read([_ESCAPED.sub(_letter, source)])


def _json_texts(source: str, *, priced: bool) -> Read:
    """Raises InvalidInput if the source is not JSON."""
    if priced:
        form, places, texts = public_form(source)
        return Read(texts, places, form)
    values = json_values(source)
    return Read([each.text for each in values], values, source)


def _has_plain_keys(source: str) -> bool:
    """Whether every key of a JSON document is the name of a member, so that it can be kept."""
    keys: list[str] = []
    json.loads(source, object_pairs_hook=lambda pairs: keys.extend(key for key, _ in pairs))
    return all(map(is_key, keys))


def _letter(escape: re.Match[str]) -> str:
    """The character that an escape of JSON or source code stands for, if it may be one of a name, a number or an
    address; recognisers do not read escapes."""
    letter = chr(int(escape[2], 16))
    return escape[1] + letter if letter.isalnum() or letter in "@._+-" else escape[0]
