"""Values of the types that SDKs declare for requests and answers, with another canary word in every string.

A list has one element of each type that it admits, so that few values show every type.
"""

import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NotRequired, Required

import pydantic
from typing_extensions import get_type_hints, is_typeddict

from service.proxy.slots import Slot, SlotKind

CANARY = re.compile(r"canary(\d+)x")
_SCHEMAS = {"parameters", "schema", "input_schema", "output_schema"}
_LISTS = (list, Iterable, Sequence)


class Samples:
    """Makes values of types; `members` has, by the number of its canary, the type and member of every string."""

    def __init__(self) -> None:
        self.members: list[str] = []

    def bodies(self, kind: Any) -> list[Any]:
        """Values of a type that share no object, as parsed JSON has it."""
        return [json.loads(json.dumps(value)) for value in self.of(kind)]

    def of(self, kind: Any, place: str = "", outer: tuple[Any, ...] = ()) -> list[Any]:
        """Values of a type, which show each of its members in each of its types."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if kind is str:
            return [self._canary(place)]
        if kind in (int, float):
            return [1]
        if kind is bool:
            return [True]
        if place.split(".")[-1] in _SCHEMAS and (origin in (dict, Mapping) or kind is object):
            return [self._schema(place)]
        if place.endswith(".properties"):
            return [self._schema(place)["properties"]]
        if kind is object or kind is Any:
            return [self._canary(place)]
        if origin is Literal:
            return [arguments[0]]
        if origin in (typing.Annotated, Required, NotRequired):
            return self.of(arguments[0], place, outer)
        if origin in (dict, Mapping):
            return [{"key": value} for value in self.of(arguments[1], place, outer)[:1]]
        if isinstance(origin, type) and issubclass(origin, _LISTS):
            return [self.of(arguments[0], place, outer)]
        if arguments:
            return [value for each in arguments if each is not type(None) for value in self.of(each, place, outer)]
        if kind in outer or not isinstance(kind, type):
            return []
        return list(self._records(kind, (*outer, kind)))

    def _records(self, kind: type, outer: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
        if is_typeddict(kind):
            hints = get_type_hints(kind)
        elif issubclass(kind, pydantic.BaseModel):
            fields = kind.model_fields.items()
            hints = {field.alias or name: field.annotation for name, field in fields}
        else:
            return
        choices = {name: self.of(hint, f"{kind.__name__}.{name}", outer) for name, hint in hints.items()}
        first = {name: values[0] for name, values in choices.items() if values}
        yield first
        for name, values in choices.items():
            for value in values[1:]:
                yield {**first, name: value}

    def _canary(self, place: str) -> str:
        self.members.append(place)
        return f"canary{len(self.members) - 1}x"

    def _schema(self, place: str) -> dict[str, Any]:
        city = {"type": "string", "description": self._canary(place), "enum": [self._canary(place)]}
        return {"type": "object", "properties": {"city": city, "all": {"type": "array", "items": dict(city)}}}

    def left_in(self, text: str) -> set[str]:
        """The type and member of each string whose canary is still in a text."""
        return {self.members[int(number)] for number in CANARY.findall(text)}


def mask(slots: Iterable[Slot], found_as: re.Pattern[str] = CANARY) -> list[Slot]:
    """Mask every canary in slots as the gateway would, or what another pattern finds. Media are replaced as a whole."""
    found = list(slots)
    for slot in found:
        if slot.kind is SlotKind.MEDIA:
            slot.value = None
    for slot in found:
        if slot.kind is not SlotKind.MEDIA and slot.value is not None:
            slot.value = _masked(slot.value, found_as)
    return found


def _masked(value: Any, found_as: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return found_as.sub("masked", value)
    if isinstance(value, dict):
        return {key: _masked(each, found_as) for key, each in value.items()}
    return [_masked(each, found_as) for each in value] if isinstance(value, list) else value


def literals(kind: Any, known: set[Any] | None = None) -> set[str]:
    """Every string that a type lists."""
    known = set() if known is None else known
    if typing.get_origin(kind) is Literal:
        return {each for each in typing.get_args(kind) if isinstance(each, str)}
    found: set[str] = set()
    for each in typing.get_args(kind):
        found |= literals(each, known)
    if kind not in known and is_typeddict(kind):
        known.add(kind)
        for hint in get_type_hints(kind).values():
            found |= literals(hint, known)
    return found
