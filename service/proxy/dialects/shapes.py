"""Tables that say where a JSON body holds text.

A shape describes one JSON value. `Leaf` is a text; the others lead to the values inside: `Members` of an object by
name (`Content` where the members that no row names may hold text), `Each` element of a list, `Values` of an object
whose keys the client chose, `Either` by the JSON type, `Typed` by the member `type`, `Media` for content that is no
text. `null` and members that no row names are passed over. An object of a type that no row names is `Kind.MEDIA`: its
text would pass unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from core.errors import InvalidInput
from service.proxy.slots import Kind, Slot

DEPTH_MAX = 100
"""Steps from the body to its deepest text. Tools in the hands of clients nest far less."""

KEPT_INSIDE = frozenset(
    ("id", "type", "role", "format", "data", "media_type", "signature", "fingerprint", "encrypted_content")
)
KEPT = KEPT_INSIDE | {
    *("name", "status", "phase", "detail", "cache_control", "prompt_cache_breakpoint"),
    *("namespace", "execution", "server_label", "server_name", "tool_name", "toolset_name"),
}
"""Members of an object of a conversation that hold no text, and stay where no row names them. Fewer stay inside of a
member that no row names: there, `name` may be that of a person."""

Path = tuple[str | int, ...]


class Shape(Protocol):
    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        """The slots in `owner[key]`, which stands at `path`.

        `strict` is for requests: a value of another JSON type raises InvalidInput, where an answer's is passed over.
        """
        ...


def slots_of(shape: Shape, body: Any, *, strict: bool) -> Iterator[Slot]:
    """Every slot of a whole body. Raises InvalidInput for a request (`strict`) whose members have other JSON types."""
    return shape.find({"body": body}, "body", (), strict)


def text_of(path: Path) -> str:
    return ".".join(str(step) for step in path)


def _other_type(expected: str, path: Path, strict: bool) -> None:
    if strict:
        raise InvalidInput(f"This member must be {expected}.", field=text_of(path) or None)


def too_deep(path: Path, strict: bool) -> bool:
    if len(path) > DEPTH_MAX and strict:
        raise InvalidInput(f"Text is nested deeper than {DEPTH_MAX} steps.", field=text_of(path[:4]))
    return len(path) > DEPTH_MAX


def _holds(value: Any, kind: type[dict[Any, Any]] | type[list[Any]], path: Path, strict: bool) -> bool:
    """Whether a value is an object or a list, as expected, whose values are looked into. Raises as `_other_type` and
    `too_deep`."""
    if value is None or too_deep(path, strict):
        return False
    if not isinstance(value, kind):
        _other_type("an object" if kind is dict else "a list", path, strict)
        return False
    return True


@dataclass(frozen=True)
class Leaf:
    kind: Kind

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        value = owner[key]
        if value is None:
            return
        if isinstance(value, str) or self.kind in (Kind.VALUE, Kind.MEDIA):
            yield Slot(owner, key, self.kind, text_of(path))
        else:
            _other_type("a string", path, strict)


@dataclass(frozen=True)
class Signed:
    """A text of the upstream that a member beside it signs: `Kind.KNOWN`, or `Kind.TEXT` if no signature is there."""

    signatures: tuple[str, ...]

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        signed = any(owner.get(name) for name in self.signatures)
        return Leaf(Kind.KNOWN if signed else Kind.TEXT).find(owner, key, path, strict)


@dataclass(frozen=True)
class Members:
    rows: Mapping[str, Shape]

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        value = owner[key]
        if not _holds(value, dict, path, strict):
            return
        for name, shape in self.rows.items():
            if name in value:
                yield from shape.find(value, name, (*path, name), strict)


@dataclass(frozen=True)
class Content(Members):
    """An object of a conversation: a message, a part of one, an item, a block. Unlike settings, what a member holds
    that no row names may be text of another vendor's format: its strings are texts, except under a name of `KEPT` or
    one that ends with `_id`. A text with a signature beside it is `Kind.KNOWN`."""

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        yield from super().find(owner, key, path, strict)
        value = owner[key]
        if not isinstance(value, dict):
            return
        for number, name in enumerate(value):
            if name not in self.rows and name not in KEPT and not name.endswith("_id"):
                yield from _unknown(value, name, (*path, number), strict)


def _unknown(owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
    """The texts of a member that no row names. Numbers stand for its names in paths."""
    value = owner[key]
    if isinstance(value, str):
        signed = isinstance(owner, dict) and owner.get("signature")
        yield Slot(owner, key, Kind.KNOWN if signed else Kind.TEXT, text_of(path))
    elif isinstance(value, dict | list) and not too_deep(path, strict):
        for number, name in enumerate(list(value) if isinstance(value, dict) else range(len(value))):
            if not isinstance(name, str) or (name not in KEPT_INSIDE and not name.endswith("_id")):
                yield from _unknown(value, name, (*path, number), strict)


@dataclass(frozen=True)
class Each:
    shape: Shape

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        value = owner[key]
        if not _holds(value, list, path, strict):
            return
        for number in range(len(value)):
            yield from self.shape.find(value, number, (*path, number), strict)


@dataclass(frozen=True)
class Values:
    """The values of an object whose keys the client chose."""

    shape: Shape

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        value = owner[key]
        if not _holds(value, dict, path, strict):
            return
        for number, name in enumerate(value):
            yield from self.shape.find(value, name, (*path, number), strict)


@dataclass(frozen=True)
class Either:
    """A value that may be a string, a list or an object; a JSON type without a shape is not accepted."""

    string: Shape | None = None
    array: Shape | None = None
    record: Shape | None = None

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        value = owner[key]
        if value is None:
            return
        choices = ((str, "a string", self.string), (list, "a list", self.array), (dict, "an object", self.record))
        for kind, _, shape in choices:
            if shape and isinstance(value, kind):
                yield from shape.find(owner, key, path, strict)
                return
        _other_type(" or ".join(name for _, name, shape in choices if shape), path, strict)


@dataclass(frozen=True)
class Media:
    """Content that is no text. `rows` are the texts that stand beside it, such as the name of a file."""

    rows: Mapping[str, Shape]

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        if owner[key] is not None:
            yield Slot(owner, key, Kind.MEDIA, text_of(path))
        yield from Members(self.rows).find(owner, key, path, strict)


def type_member(value: Mapping[str, Any]) -> Any:
    return value.get("type")


@dataclass(frozen=True)
class Typed:
    """An object whose type chooses the row. An unknown type is `Kind.MEDIA`."""

    rows: Mapping[str, Shape]
    type_of: Callable[[Mapping[str, Any]], Any] = type_member

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        value = owner[key]
        if not _holds(value, dict, path, strict):
            return
        name = self.type_of(value)
        shape = self.rows.get(name) if isinstance(name, str) else None
        if shape is None:
            yield Slot(owner, key, Kind.MEDIA, text_of(path))
        else:
            yield from shape.find(owner, key, path, strict)


@dataclass(frozen=True)
class Emptied:
    """A list that a request does not need and that repeats text in pieces (log-probabilities): it is emptied.

    Answers keep theirs; restoring decides by the text beside them.
    """

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        del path
        if strict and isinstance(owner[key], list):
            owner[key] = []
        yield from ()


@dataclass(frozen=True)
class Untouched:
    """A value without text."""

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        del owner, key, path, strict
        yield from ()


@dataclass(frozen=True)
class Strings:
    """Every string of a JSON value, as a slot of its own."""

    kind: Kind

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        del strict
        return strings(owner, key, path, self.kind)


def strings(owner: Any, key: str | int, path: Path, kind: Kind) -> Iterator[Slot]:
    """Every string in `owner[key]`. Keys are kept."""
    pending: list[tuple[Any, str | int, Path]] = [(owner, key, path)]
    while pending:
        owner, key, path = pending.pop()
        value = owner[key]
        if isinstance(value, str):
            yield Slot(owner, key, kind, text_of(path))
            continue
        keys: list[Any] = list(value) if isinstance(value, dict) else []
        if isinstance(value, list):
            keys = list(range(len(value)))
        pending.extend((value, inner, (*path, number)) for number, inner in reversed(list(enumerate(keys))))


TEXT = Leaf(Kind.TEXT)
JSON = Leaf(Kind.JSON)
VALUE = Leaf(Kind.VALUE)
IDENTIFIER = Leaf(Kind.IDENTIFIER)
DEFINITION = Leaf(Kind.DEFINITION)
MEDIA = Leaf(Kind.MEDIA)
NO_TEXT = Members({})
UNTOUCHED = Untouched()
TEXTS = Each(TEXT)
METADATA = Values(TEXT)
ERROR = Strings(Kind.TEXT)
