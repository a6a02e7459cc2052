"""Tables that say where a JSON body holds text.

A shape describes one JSON value. `Leaf` is a text; the others lead to the values inside: `Members` of an object by
name, `Each` element of a list, `Values` of an object whose keys the client chose, `Either` by the JSON type, `Typed` by
the member `type`, `Media` for content that is no text. The shapes of `public` hold no text. `null` is passed over.

Guarantee for a request: every string and every name of a member is in a slot, or a shape of `public` has checked it,
or the policy lets it pass by its path (`Reading.unread`); anything else raises InvalidInput. An object of a type that
no row names is `Kind.MEDIA`: its text would pass unseen.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from core.errors import InvalidInput
from core.text.reversible.mapping import is_key
from service.proxy.slots import NameSlot, Slot, SlotKind

DEPTH_MAX = 100
"""Steps from the body to its deepest text. Tools in the hands of clients nest far less."""

KEPT_INSIDE = frozenset(
    ("id", "type", "role", "format", "data", "media_type", "signature", "fingerprint", "encrypted_content")
)
KEPT = KEPT_INSIDE | {
    *("name", "status", "phase", "detail", "cache_control", "prompt_cache_breakpoint"),
    *("namespace", "execution", "server_label", "server_name", "tool_name", "toolset_name"),
}
"""Members of an object of an answer that hold no text. Fewer stay inside of a member that is not known: there, `name`
may be that of a person."""

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Inspection:
    """How a body is read. `strict`: a request, where a member that is not known or has another JSON type raises
    InvalidInput; in an answer it is passed over. `unread`: the members of a request that pass as they are, by the names
    on their paths: `tools.server_url`."""

    strict: bool
    unread: frozenset[str] = frozenset()

    def passes(self, path: Path) -> bool:
        return bool(self.unread) and ".".join(step for step in path if isinstance(step, str)) in self.unread


class Shape(Protocol):
    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        """The slots in `owner[key]`, which stands at `path`. Raises InvalidInput as `Inspection` says."""
        ...


def slots_of(shape: Shape, body: Any, *, strict: bool, unread: frozenset[str] = frozenset()) -> Iterator[Slot]:
    """Every slot of a whole body. Raises InvalidInput for a request (`strict`) that may not leave."""
    return shape.find({"body": body}, "body", (), Inspection(strict, unread))


def text_of(path: Path) -> str:
    return ".".join(str(step) for step in path)


def refuse(reason: str, path: Path) -> InvalidInput:
    """The error for a member that would leave unread. Its text has the path, which the errors of SDKs show in part."""
    place = text_of(path)
    return InvalidInput(
        f"`{place}`: {reason} Leave it out, or let the operator list its path in `proxy.unread` of your policy.",
        field=place,
    )


def _other_type(expected: str, path: Path, reading: Inspection) -> None:
    if reading.strict:
        raise InvalidInput(f"This member must be {expected}.", field=text_of(path) or None)


def too_deep(path: Path, reading: Inspection) -> bool:
    if len(path) > DEPTH_MAX and reading.strict:
        raise InvalidInput(f"Text is nested deeper than {DEPTH_MAX} steps.", field=text_of(path[:4]))
    return len(path) > DEPTH_MAX


def _holds(value: Any, kind: type[dict[Any, Any]] | type[list[Any]], path: Path, reading: Inspection) -> bool:
    """Whether a value is an object or a list, as expected, whose values are looked into. Raises as `_other_type` and
    `too_deep`."""
    if value is None or too_deep(path, reading):
        return False
    if not isinstance(value, kind):
        _other_type("an object" if kind is dict else "a list", path, reading)
        return False
    return True


@dataclass(frozen=True)
class Leaf:
    kind: SlotKind

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if value is None:
            return
        if isinstance(value, str) or self.kind is SlotKind.MEDIA:
            yield Slot(owner, key, self.kind, text_of(path))
        else:
            _other_type("a string", path, reading)


@dataclass(frozen=True)
class JsonText:
    """A string that should hold JSON. One with a key that is no name is a text as a whole, without escapes in it."""

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        for slot in Leaf(SlotKind.JSON).find(owner, key, path, reading):
            if reading.strict:
                try:
                    parsed = json.loads(slot.value)
                except (ValueError, RecursionError):
                    slot.kind = SlotKind.TEXT
                else:
                    if not _has_names(parsed):
                        slot.kind, slot.value = SlotKind.TEXT, json.dumps(parsed, ensure_ascii=False)
            yield slot


@dataclass(frozen=True)
class Value:
    """A JSON value as one slot. In an object with a key that is no name, each key and each value has a slot."""

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        if owner[key] is None or too_deep(path, reading):
            return
        if _has_names(owner[key]):
            yield Slot(owner, key, SlotKind.VALUE, text_of(path))
        elif isinstance(owner[key], dict):
            yield from Values(self).find(owner, key, path, reading)
        else:
            yield from Each(self).find(owner, key, path, reading)


def _has_names(value: Any) -> bool:
    """Whether every key in a JSON value has the form of a name."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if not all(map(is_key, value)):
                return False
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return True


@dataclass(frozen=True)
class Signed:
    """A text of the upstream that a member beside it signs: `Kind.KNOWN`, or `Kind.TEXT` if no signature is there.

    Precondition: a shape checks the form of the signatures, so that a word in their place makes no text known."""

    signatures: tuple[str, ...]

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        signed = any(owner.get(name) for name in self.signatures)
        return Leaf(SlotKind.KNOWN if signed else SlotKind.TEXT).find(owner, key, path, reading)


@dataclass(frozen=True)
class Members:
    """An object with known members. `content`: it is a part of a conversation, so that in an answer the strings of
    members that are not known are texts, except under a name of `KEPT` or one that ends with `_id`."""

    rows: Mapping[str, Shape]
    content: bool = False

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if not _holds(value, dict, path, reading):
            return
        if reading.strict:
            for number, name in enumerate(value):
                if name not in self.rows and not reading.passes((*path, name)):
                    raise refuse(
                        "This object has a member that is not known and would leave unread; its number is the last in "
                        "the path, counted from 0.",
                        (*path, number),
                    )
        for name, shape in self.rows.items():
            if name in value and not reading.passes((*path, name)):
                yield from shape.find(value, name, (*path, name), reading)
        if self.content and not reading.strict:
            for number, name in enumerate(value):
                if name not in self.rows and name not in KEPT and not name.endswith("_id"):
                    yield from _unknown(value, name, (*path, number))


def _unknown(owner: Any, key: str | int, path: Path) -> Iterator[Slot]:
    """The texts of a member of an answer that is not known. Numbers stand for its names in paths."""
    value = owner[key]
    if isinstance(value, str):
        yield Slot(owner, key, SlotKind.TEXT, text_of(path))
    elif isinstance(value, dict | list) and len(path) <= DEPTH_MAX:
        for number, name in enumerate(list(value) if isinstance(value, dict) else range(len(value))):
            if not isinstance(name, str) or (name not in KEPT_INSIDE and not name.endswith("_id")):
                yield from _unknown(value, name, (*path, number))


@dataclass(frozen=True)
class Each:
    shape: Shape

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if not _holds(value, list, path, reading):
            return
        for number in range(len(value)):
            yield from self.shape.find(value, number, (*path, number), reading)


@dataclass(frozen=True)
class Values:
    """The values of an object whose keys the client chose. A key that is no name is a text itself, of kind `names`."""

    shape: Shape
    names: SlotKind = SlotKind.TEXT

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if not _holds(value, dict, path, reading):
            return
        for number, name in enumerate(list(value)):
            inner = (*path, number)
            named: list[Slot] = []
            for slot in self.shape.find(value, name, inner, reading):
                if slot.owner is value and slot.key == name:
                    named.append(slot)
                yield slot
            if not is_key(name):
                yield NameSlot(value, name, self.names, text_of(inner), named)


@dataclass(frozen=True)
class Either:
    """A value that may be a string, a list, an object or a number; a JSON type without a shape is not accepted."""

    string: Shape | None = None
    array: Shape | None = None
    record: Shape | None = None
    number: Shape | None = None

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if value is None:
            return
        choices: tuple[tuple[Any, str, Shape | None], ...] = (
            (str, "a string", self.string),
            (list, "a list", self.array),
            (dict, "an object", self.record),
            ((bool, int, float), "a number, true or false", self.number),
        )
        for kind, _, shape in choices:
            if shape and isinstance(value, kind):
                yield from shape.find(owner, key, path, reading)
                return
        _other_type(" or ".join(name for _, name, shape in choices if shape), path, reading)


@dataclass(frozen=True)
class Media:
    """Content that is no text. `rows` are the texts that stand beside it, such as the name of a file. The rest leaves
    unread where the policy lets media pass."""

    rows: Mapping[str, Shape]

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if value is None:
            return
        yield Slot(owner, key, SlotKind.MEDIA, text_of(path))
        if _holds(value, dict, path, reading):
            for name, shape in self.rows.items():
                if name in value:
                    yield from shape.find(value, name, (*path, name), reading)


def type_member(value: Mapping[str, Any]) -> Any:
    return value.get("type")


@dataclass(frozen=True)
class Typed:
    """An object whose type chooses the row. An unknown type is `Kind.MEDIA`."""

    rows: Mapping[str, Shape]
    type_of: Callable[[Mapping[str, Any]], Any] = type_member

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if not _holds(value, dict, path, reading):
            return
        name = self.type_of(value)
        shape = self.rows.get(name) if isinstance(name, str) else None
        if shape is None:
            yield Slot(owner, key, SlotKind.MEDIA, text_of(path))
        else:
            yield from shape.find(owner, key, path, reading)


@dataclass(frozen=True)
class Emptied:
    """A list that a request does not need and that repeats text in pieces (log-probabilities): it is emptied.

    Answers keep theirs; restoring decides by the text beside them.
    """

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        del path
        if reading.strict and owner[key] is not None:
            owner[key] = []
        yield from ()


@dataclass(frozen=True)
class Strings:
    """Every string of a JSON value, as a slot of its own, and every key that is no name."""

    kind: SlotKind

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        del reading
        return strings(owner, key, path, self.kind)


def strings(owner: Any, key: str | int, path: Path, kind: SlotKind) -> Iterator[Slot]:
    """Every string in `owner[key]`, and every key that is no name. Other keys are kept."""
    pending: list[tuple[Any, Any, Path]] = [(owner, key, path)]
    root = owner
    while pending:
        owner, name, path = pending.pop()
        value = owner[name]
        own: list[Slot] = []
        if isinstance(value, str):
            own = [Slot(owner, name, kind, text_of(path))]
            yield own[0]
        elif isinstance(value, dict | list):
            keys = list(value) if isinstance(value, dict) else range(len(value))
            pending.extend((value, inner, (*path, number)) for number, inner in reversed(list(enumerate(keys))))
        if isinstance(owner, dict) and owner is not root and not is_key(name):
            yield NameSlot(owner, name, kind, text_of(path), own)


TEXT = Leaf(SlotKind.TEXT)
JSON = JsonText()
VALUE = Value()
IDENTIFIER = Leaf(SlotKind.IDENTIFIER)
DEFINITION = Leaf(SlotKind.DEFINITION)
MEDIA = Leaf(SlotKind.MEDIA)
TEXTS = Each(TEXT)
METADATA = Values(TEXT)
STRINGS = Strings(SlotKind.TEXT)
ERROR = STRINGS
