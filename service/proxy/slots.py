"""A place of a request's or an answer's JSON body that holds text."""

from enum import Enum
from typing import Any


class SlotKind(Enum):
    """What happens to the text of a slot before it leaves for the upstream."""

    TEXT = "text"
    """A string: what the policy covers is masked."""
    JSON = "json"
    """A string that should hold JSON: its string values are masked, its keys are kept. Models also write other text
    where JSON is expected; mask such a string as `TEXT`."""
    VALUE = "value"
    """A JSON value: its strings are masked, its keys are kept."""
    IDENTIFIER = "identifier"
    """A name that the client gives to a user, or to a call of a tool: replaced as a whole by a pseudonym."""
    KNOWN = "known"
    """A string that the upstream wrote and signed: only originals that were found in other slots are replaced, which
    gives the text that the upstream signed."""
    DEFINITION = "definition"
    """A description of a tool or a schema: masked where the policy says so."""
    MEDIA = "media"
    """An image, sound, file, or content of an unknown type: refused unless the policy lets it pass."""


class Slot:
    """The place `owner[key]` of a parsed body. `path` names it in problems, as `messages.3.content.0.text`.

    A path holds names of the API and numbers only: where the client chose a name (a key of `metadata`, a property of a
    schema), the path has the number of the member, counted from 0. `repr` never shows the value.
    """

    __slots__ = ("key", "kind", "owner", "path")

    def __init__(self, owner: Any, key: str | int, kind: SlotKind, path: str) -> None:
        self.owner = owner
        self.key = key
        self.kind = kind
        self.path = path

    @property
    def value(self) -> Any:
        return self.owner[self.key]

    @value.setter
    def value(self, value: Any) -> None:
        self.owner[self.key] = value

    def __repr__(self) -> str:
        return f"Slot({self.kind.name}, {self.path!r})"


class NameSlot(Slot):
    """The name of a member that the client chose: `value` is the name itself. `values`: the slots `owner[name]`.

    A name that is written moves to the end of its object, also if it stays the same: where a member stands does not
    show whether a fill equals the original.
    """

    __slots__ = ("values",)

    def __init__(self, owner: Any, key: str, kind: SlotKind, path: str, values: list[Slot]) -> None:
        super().__init__(owner, key, kind, path)
        self.values = values

    @property
    def value(self) -> Any:
        return self.key

    @value.setter
    def value(self, value: Any) -> None:
        held = self.owner.pop(self.key)
        while value in self.owner:
            value += "_"  # two members never become one
        self.owner[value] = held
        self.key = value
        for slot in self.values:
            slot.key = value
