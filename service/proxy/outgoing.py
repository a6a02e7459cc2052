"""The texts of a request that leaves for an upstream, read from its slots and written back once they are masked."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from core.errors import InvalidInput
from core.text.reversible.json_text import JsonValue, json_values, with_values
from core.text.reversible.lexing import as_read
from core.text.reversible.names import is_key
from service.proxy.slots import Kind, Slot
from service.sanitize.proxy_terms import ProxyTerms

PSEUDONYM_CHARS = 32
_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")  # of the author of a message, which OpenAI refuses there
_AUTHOR = re.compile(r"messages\.\d+\.name")
_ESCAPED = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-fA-F]{4})")
_MEDIA_REFUSED = "Images, sound, files and content of unknown types cannot be read, so they are refused by the policy."


@dataclass(frozen=True)
class Field:
    """A slot and its texts. `values`: those of its JSON, None for a text as it is. `is_inspected`: whether recognisers
    read it, or only what they found elsewhere is replaced.

    Only the first texts are written back. After them, `with_readings` repeats those that have escapes (`M%C3%BCller`)
    without them: recognisers read no escapes, and what they find in one writing is masked in the other.
    """

    slot: Slot
    texts: Sequence[str] = field(repr=False)
    values: Sequence[JsonValue] | None = field(default=None, repr=False)
    source: str = field(default="", repr=False)
    is_inspected: bool = True

    def with_readings(self) -> Field:
        """The field for masking. A fill with a price would charge the readings, too."""
        read = [reading for text in self.texts if (reading := as_read(text)) != text] if self.is_inspected else []
        return replace(self, texts=[*self.texts, *read]) if read else self

    def write(self, texts: Sequence[str]) -> None:
        """Put masked texts in the places of the texts."""
        if self.values is None:
            text = texts[0]
            self.slot.value = _NOT_IN_NAMES.sub("_", text) if _AUTHOR.fullmatch(self.slot.path) else text
            return
        written = with_values(self.source, self.values, texts[: len(self.values)])
        self.slot.value = json.loads(written) if self.slot.kind is Kind.VALUE else written


def fields_of(slots: Iterable[Slot], terms: ProxyTerms, *, pseudonym_key: bytes) -> list[Field]:
    """The fields of a request that have text. Identifiers are replaced at once.

    Raises InvalidInput for content that the policy refuses.
    """
    found = []
    for slot in slots:
        if slot.kind is Kind.MEDIA:
            if terms.media == "refuse":
                raise InvalidInput(_MEDIA_REFUSED, field=slot.path)
        elif slot.kind is Kind.IDENTIFIER:
            if terms.identifiers == "pseudonym":
                slot.value = pseudonym(slot.value, pseudonym_key)
        elif slot.kind is not Kind.DEFINITION or terms.definitions == "mask":
            found.append(_field(slot))
    return [each for each in found if any(text.strip() for text in each.texts)]


def noted(slots: Iterable[Slot], pseudonyms: dict[str, str], *, key: bytes) -> Iterator[Slot]:
    """The slots. Identifiers are added to `pseudonyms`, pseudonym -> identifier, before they are replaced."""
    for slot in slots:
        if slot.kind is Kind.IDENTIFIER:
            pseudonyms[pseudonym(slot.value, key)] = str(slot.value)
        yield slot


def pseudonym(value: Any, key: bytes) -> str:
    """A name for a user that only this tenant's key links to the client's."""
    return hmac.digest(key, str(value).encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:PSEUDONYM_CHARS]


def _field(slot: Slot) -> Field:
    if slot.kind is Kind.VALUE:
        source = orjson.dumps(slot.value).decode()
        values = json_values(source)
        return Field(slot, [each.text for each in values], values, source)
    if slot.kind is Kind.KNOWN:
        return Field(slot, [slot.value], is_inspected=False)
    text: str = slot.value
    if slot.kind is Kind.JSON or text.lstrip().startswith(("{", "[")):
        try:
            values = json_values(text)
            if slot.kind is Kind.JSON or _has_plain_keys(text):
                return Field(slot, [each.text for each in values], values, text)
        except InvalidInput:
            pass  # models also write other text where JSON is expected
    return Field(slot, [_ESCAPED.sub(_letter, text)])


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
