"""The texts of a request that leaves for an upstream, read from its slots and written back once they are masked."""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from typing import Any

import orjson

from core.errors import InvalidInput
from core.text.reversible.json_text import with_values
from service.proxy.dialects.protocol import member
from service.proxy.slots import Slot, SlotKind
from service.proxy.texts import Read, TextLimits
from service.sanitize.policies import ProxyTerms

PSEUDONYM_CHARS = 32
_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")  # of the author of a message, which OpenAI refuses there
_AUTHOR = re.compile(r"messages\.\d+\.name")
_MEDIA_REFUSED = "Images, sound, files and content of unknown types cannot be read, so they are refused by the policy."


@dataclass(frozen=True)
class Field:
    """A slot and what is read of it."""

    slot: Slot
    read: Read

    @property
    def texts(self) -> Sequence[str]:
        return self.read.texts

    @property
    def is_inspected(self) -> bool:
        return self.read.is_inspected

    def write(self, texts: Sequence[str]) -> None:
        """Put masked texts in the places of the texts."""
        values = self.read.values
        if values is None:
            text = texts[0]
            self.slot.value = _NOT_IN_NAMES.sub("_", text) if _AUTHOR.fullmatch(self.slot.path) else text
            return
        written = with_values(self.read.source, values, texts[: len(values)])
        self.slot.value = json.loads(written) if self.slot.kind is SlotKind.VALUE else written


def sources_of(
    slots: Iterable[Slot], terms: ProxyTerms, limits: TextLimits, *, pseudonym_key: bytes
) -> list[tuple[Slot, str]]:
    """The slots of a request that are read, each with its source for `read_texts`. Identifiers are replaced at once.

    Raises InvalidInput for content that the policy refuses, and for more text than the limits allow: before any of it
    is decoded.
    """
    found = []
    chars = 0
    for slot in slots:
        if slot.kind is SlotKind.MEDIA:
            if terms.media == "refuse":
                raise InvalidInput(_MEDIA_REFUSED, field=slot.path)
        elif slot.kind is SlotKind.IDENTIFIER:
            if terms.identifiers == "pseudonym":
                slot.value = pseudonym(slot.value, pseudonym_key)
        elif slot.kind is not SlotKind.DEFINITION or terms.definitions == "mask":
            source = orjson.dumps(slot.value).decode() if slot.kind is SlotKind.VALUE else slot.value
            chars += len(source)
            found.append((slot, source))
            limits.check(chars=chars, texts=len(found), place=slot.path)
    return found


_SYSTEM_ROLES = ("system", "developer")
_NEVER_PASSED = (SlotKind.MEDIA, SlotKind.IDENTIFIER)


def by_system(
    slots: Iterable[Slot], body: Mapping[str, Any], system: str
) -> tuple[Iterable[Slot], Callable[[Slot], bool]]:
    """The slots that are read, and what tells which of them patterns alone read. `system`: what the policy does with
    system prompts and instructions."""
    lists = {name: turns for name in ("messages", "input") if isinstance(turns := body.get(name), list)}
    prompts = {
        (name, str(number))
        for name, turns in lists.items()
        for number, turn in enumerate(turns)
        if member(turn, "role") in _SYSTEM_ROLES
    }

    def of_system(slot: Slot) -> bool:
        first, *rest = slot.path.split(".", 2)
        named = first in ("system", "instructions") or (first, *rest[:1]) in prompts
        return named and slot.kind not in _NEVER_PASSED

    def by_patterns(slot: Slot) -> bool:
        return system == "patterns" and of_system(slot)

    return (filterfalse(of_system, slots) if system == "pass" else slots), by_patterns


def noted(slots: Iterable[Slot], pseudonyms: dict[str, str], *, key: bytes) -> Iterator[Slot]:
    """The slots. Identifiers are added to `pseudonyms`, pseudonym -> identifier, before they are replaced."""
    for slot in slots:
        if slot.kind is SlotKind.IDENTIFIER:
            pseudonyms[pseudonym(slot.value, key)] = str(slot.value)
        yield slot


def pseudonym(value: Any, key: bytes) -> str:
    """A name for a user that only this tenant's key links to the client's."""
    return hmac.digest(key, str(value).encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:PSEUDONYM_CHARS]
