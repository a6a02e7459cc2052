"""The shape of a JSON schema in a request: of the arguments of a tool, or of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from service.proxy.dialects.shapes import Path, Values, strings, text_of, too_deep
from service.proxy.slots import Kind, Slot

_SCHEMA_TEXTS = ("title", "description", "$comment")
_SCHEMA_VALUES = ("enum", "const", "default", "examples", "example")
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMAS: tuple[str, ...] = (
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "contains",
)
_SCHEMAS += ("unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not", "if", "then", "else")


@dataclass(frozen=True)
class Schema:
    """A JSON schema: its descriptions and titles, and the values that it lists. Property names and patterns stay."""

    def find(self, owner: Any, key: str | int, path: Path, strict: bool) -> Iterator[Slot]:
        value = owner[key]
        if too_deep(path, strict):
            return
        if isinstance(value, list):
            for number in range(len(value)):
                yield from self.find(value, number, (*path, number), strict)
        if not isinstance(value, dict):
            return  # `true`, `false` or no schema at all: the upstream judges it
        for name in _SCHEMA_TEXTS:
            if isinstance(value.get(name), str):
                yield Slot(value, name, Kind.DEFINITION, text_of((*path, name)))
        for name in _SCHEMA_VALUES:
            if name in value:
                yield from strings(value, name, (*path, name), Kind.DEFINITION)
        for name in _SCHEMA_MAPS:
            if isinstance(value.get(name), dict):
                yield from Values(self).find(value, name, (*path, name), strict)
        for name in _SCHEMAS:
            if name in value:
                yield from self.find(value, name, (*path, name), strict)


SCHEMA = Schema()
