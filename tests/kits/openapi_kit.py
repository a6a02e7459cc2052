"""Walks the OpenAPI document: every list and object of the JSON bodies, and a body with any value in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """A list or an object of a body: `path` from the root, `schema` without references, `choices` of the unions."""

    operation: str
    path: Path
    schema: dict[str, Any]
    root: dict[str, Any]
    document: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.operation} {'.'.join(map(str, self.path))}".strip()

    def body(self, value: Any) -> Any:
        """A body with `value` at this place, and with what is required elsewhere."""
        return _with(self.document, self.root, self.path, value)

    def item(self) -> Any:
        """A valid item of this list."""
        return example(self.document, self.schema["items"])


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every operation that takes a JSON body, each alternative of its schema, and the document of its references."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            if schema is None:
                continue
            where = {"$defs": schema["$defs"]} if "$defs" in schema else document
            for choice in _choices(where, schema):
                yield f"{method.upper()} {path}", choice, where


def places(document: dict[str, Any], kind: str) -> list[Place]:
    """Every place of a body whose type is `kind`: array or object."""
    found = []
    for operation, root, where in bodies(document):
        found += [
            Place(operation, path, schema, root, where)
            for path, schema in _walk(where, root, ())
            if schema.get("type") == kind
        ]
    return found


def _walk(document: dict[str, Any], schema: dict[str, Any], path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for choice in _choices(document, schema):
        yield path, choice
        for name, member in choice.get("properties", {}).items():
            yield from _walk(document, member, (*path, name))
        if isinstance(choice.get("items"), dict):
            yield from _walk(document, choice["items"], (*path, 0))


def _choices(document: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in schema:
        target: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return _choices(document, target)
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return [choice for member in schema[union] for choice in _choices(document, member)]
    return [schema]


def example(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """A value that the schema takes, with what is required alone."""
    schema = _choices(document, schema)[0]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        members = schema.get("properties", {})
        return {name: example(document, members[name]) for name in schema.get("required", ())}
    if kind == "array":
        return [example(document, schema["items"])] * schema.get("minItems", 0)
    if kind in ("number", "integer"):
        return schema.get("minimum", 0.5 if kind == "number" else 1)
    return {"string": "a", "boolean": True}.get(str(kind))


def _with(document: dict[str, Any], schema: dict[str, Any], path: Path, value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    for choice in _choices(document, schema):
        if first == 0 and choice.get("type") == "array":
            return [_with(document, choice["items"], tuple(rest), value)]
        if first in choice.get("properties", {}):
            base = example(document, choice)
            return base | {str(first): _with(document, choice["properties"][first], tuple(rest), value)}
    raise LookupError(f"no {path}")
