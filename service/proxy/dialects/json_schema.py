"""The shape of a JSON schema in a request: of the arguments of a tool, or of an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from core.text.reversible.mapping import is_name
from service.proxy.dialects.public import PLAIN, WORD, record
from service.proxy.dialects.shapes import (
    DEFINITION,
    Each,
    Either,
    Members,
    Path,
    Reading,
    Shape,
    Strings,
    Values,
)
from service.proxy.slots import Kind, Slot

_DRAFT = re.compile(r"https?://json-schema\.org/(?:draft-0\d|draft/20\d\d-\d\d)/schema#?")


@dataclass(frozen=True)
class _Name:
    """A name of a property, or a pointer to a part of the schema: public in the form of a name, else a definition, as
    the key is that it names."""

    def find(self, owner: Any, key: str | int, path: Path, reading: Reading) -> Iterator[Slot]:
        value = owner[key]
        if isinstance(value, str) and (_DRAFT.fullmatch(value) or all(map(_is_step, value.split("/")))):
            return
        yield from DEFINITION.find(owner, key, path, reading)


def _is_step(step: str) -> bool:
    return step in ("", "#") or is_name(step) or (step.isdecimal() and len(step) <= 4)


@dataclass(frozen=True)
class Schema:
    """A JSON schema. Its texts are definitions: descriptions, titles, patterns, the values that it lists, and what
    stands under a name that begins with `x-`. A name of a property is public in the form of a name, else a definition.
    """

    def find(self, owner: Any, key: str | int, path: Path, reading: Reading) -> Iterator[Slot]:
        value = owner[key]
        if isinstance(value, dict):
            extensions: dict[str, Shape] = {}
            if any(name not in _ROWS for name in value):
                extensions = {name: _STRINGS for name in value if name.lower().startswith("x-") and is_name(name)}
            yield from (Members({**_ROWS, **extensions}) if extensions else _MEMBERS).find(owner, key, path, reading)
        elif isinstance(value, list):
            yield from Each(self).find(owner, key, path, reading)
        else:
            yield from PLAIN.find(owner, key, path, reading)


SCHEMA = Schema()
_NAME = _Name()
_STRINGS = Strings(Kind.DEFINITION)
_MAP = Values(SCHEMA, Kind.DEFINITION)
_NAMES = Either(array=Each(_NAME), number=PLAIN)  # a number: `required: true`, as in draft 3
_ROWS: dict[str, Shape] = {
    **dict.fromkeys(("title", "description", "$comment", "pattern", "markdownDescription", "errorMessage"), DEFINITION),
    **dict.fromkeys(("enum", "const", "default", "examples", "example", "enumDescriptions", "enumNames"), _STRINGS),
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _MAP),
    **dict.fromkeys(("items", "prefixItems", "additionalItems", "additionalProperties", "unevaluatedItems"), SCHEMA),
    **dict.fromkeys(("contains", "unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not"), SCHEMA),
    **dict.fromkeys(("if", "then", "else", "contentSchema"), SCHEMA),
    **dict.fromkeys(("$schema", "$id", "id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor"), _NAME),
    **dict.fromkeys(("required", "propertyOrdering"), _NAMES),
    "dependentRequired": Values(_NAMES, Kind.DEFINITION),
    "type": Either(string=WORD, array=Each(Either(string=WORD, record=SCHEMA))),
    "discriminator": record({"propertyName": _NAME, "mapping": Values(_NAME, Kind.DEFINITION)}),
    **record(
        words="format contentEncoding contentMediaType",
        plain="multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength maxItems minItems "
        "uniqueItems maxContains minContains maxProperties minProperties nullable deprecated readOnly writeOnly "
        "strict optional",
    ).rows,
}
_MEMBERS = Members(_ROWS)
