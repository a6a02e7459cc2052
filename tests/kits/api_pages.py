"""Pages of Markdown from the gateway's OpenAPI document: one for each tag, with its operations and their objects."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_REFERENCE = re.compile(r'"#/components/schemas/(\w+)"')
_LIMITS = {
    "minimum": "at least {}", "exclusiveMinimum": "above {}", "maximum": "at most {}", "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters", "maxLength": "at most {} characters", "minItems": "at least {} items",
    "maxItems": "at most {} items", "maxProperties": "at most {} members", "pattern": "matches `{}`",
}  # fmt: skip
_METHODS = ("get", "put", "post", "delete")
_TOP = """# API reference

On these pages you look up every path, parameter and member. They are generated from the OpenAPI document that a
gateway serves at `/openapi.json` and shows at `/docs`. Send the API key as `Authorization: Bearer KEY`. Every error is
a problem document, whose codes [a page](../problems.md) explains.
"""


def pages(document: Mapping[str, Any]) -> dict[str, str]:
    """The pages by the names of their files."""
    schemas = document["components"]["schemas"]
    tags: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method in (each for each in _METHODS if each in methods):
            operation = methods[method]
            tags.setdefault((operation.get("tags") or ["other"])[0], []).append((method.upper(), path, operation))
    homes: dict[str, str] = {}
    for tag, operations in tags.items():
        for name in _reached([operation for *_, operation in operations], schemas):
            homes.setdefault(name, _file(tag))
    made = {"README.md": _TOP}
    for tag, operations in tags.items():
        rows = [f"| `{method} {path}` | {_anchored(method, path, op)} |" for method, path, op in operations]
        table = _table(("path", "what"), rows)
        made["README.md"] += f"\n## [{_title(tag)}]({_file(tag)})\n\n" + table.replace("](#", f"]({_file(tag)}#")
        blocks = [f"# {_title(tag)}", table]
        blocks += [_operation(*each, homes) for each in operations]
        own = sorted(name for name, home in homes.items() if home == _file(tag))
        blocks += ["## Objects", *(_object(name, schemas[name], homes) for name in own)] if own else []
        made[_file(tag)] = "\n\n".join(blocks) + "\n"
    return made


def _title(tag: str) -> str:
    return tag[0].upper() + tag[1:]


def _file(tag: str) -> str:
    return re.sub(r"\W+", "-", tag.lower()) + ".md"


def _anchor(method: str, path: str) -> str:
    return re.sub(r"\W+", "-", f"{method} {path}".lower()).strip("-")


def _anchored(method: str, path: str, operation: Mapping[str, Any]) -> str:
    return f"[{_cell(operation.get('summary', ''))}](#{_anchor(method, path)})"


def _reached(of: Any, schemas: Mapping[str, Any]) -> Iterator[str]:
    waiting, seen = _REFERENCE.findall(json.dumps(of)), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting += _REFERENCE.findall(json.dumps(schemas[name]))


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *rows])


def _cell(text: Any) -> str:
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|").strip()


def _operation(method: str, path: str, operation: Mapping[str, Any], homes: Mapping[str, str]) -> str:
    blocks = [f"## `{method} {path}` {{ #{_anchor(method, path)} }}", f"{operation.get('summary', '')}."]
    blocks += [operation["description"]] if operation.get("description") else []
    parameters = [
        f"| `{one['name']}` | {one['in']} | {_type(one['schema'], homes)} | "
        f"{'yes' if one.get('required') else ''} | {_cell(one.get('description', ''))} |"
        for one in operation.get("parameters", ())
    ]
    blocks += [_table(("parameter", "in", "type", "required", "meaning"), parameters)] if parameters else []
    body = operation.get("requestBody", {}).get("content", {})
    blocks += [f"Body: {_contents(body, homes)}."] if body else []
    for schema in (one.get("schema", {}) for one in body.values()):
        inner = {name: each for name, each in schema.get("$defs", {}).items() if name not in homes}
        blocks += _members(schema, homes)
        blocks += [part for name, each in inner.items() for part in (f"`{name}`:", *_members(each, homes))]
    blocks += [f"```json\n{json.dumps(one['example'], indent=2)}\n```" for one in body.values() if "example" in one]
    for code, answer in operation["responses"].items():
        content = answer.get("content", {})
        if code.startswith(("2", "3")):
            blocks.append(f"Answer {code}: {_contents(content, homes) or _cell(answer['description'])}.")
    return "\n\n".join(blocks)


def _contents(content: Mapping[str, Any], homes: Mapping[str, str]) -> str:
    kinds = {kind: _type(one.get("schema", {}), homes) for kind, one in content.items()}
    return "; ".join(shown if kind == "application/json" else f"{shown} as `{kind}`" for kind, shown in kinds.items())


def _object(name: str, schema: Mapping[str, Any], homes: Mapping[str, str]) -> str:
    blocks = [f"### {name}"] + ([schema["description"]] if schema.get("description") else [])
    return "\n\n".join([*blocks, *(_members(schema, homes) or [_type(schema, homes)])])


def _members(schema: Mapping[str, Any], homes: Mapping[str, str]) -> list[str]:
    """The table of an object's members, if it has any."""
    needed = schema.get("required", ())
    rows = [
        f"| `{member}` | {_type(one, homes)} | {'yes' if member in needed else ''} | "
        f"{_cell(one.get('description', ''))} |"
        for member, one in schema.get("properties", {}).items()
    ]
    return [_table(("member", "type", "required", "meaning"), rows)] if rows else []


def _type(schema: Mapping[str, Any], homes: Mapping[str, str]) -> str:
    """A type in words, with its limits and its default, for a cell of a table."""
    shown = [_form(schema, homes)]
    shown += [text.format(_number(schema[key])) for key, text in _LIMITS.items() if key in schema]
    default = schema.get("default")
    shown += [f"default `{_cell(json.dumps(default))}`"] if default is not None else []
    return ", ".join(shown)


def _number(limit: Any) -> str:
    return str(int(limit)) if isinstance(limit, float) and limit.is_integer() else _cell(limit)


def _form(schema: Mapping[str, Any], homes: Mapping[str, str]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}]({homes[name]}#{name.lower()})" if name in homes else f"`{name}`"
    if kinds := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_type(each, homes) for each in kinds)
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return " or ".join(f"`{_cell(json.dumps(each))}`" for each in values)
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'], homes)}" if schema.get("items") else "list"
    members = schema.get("additionalProperties")
    if schema.get("type") == "object" and isinstance(members, dict) and members:
        return f"object of {_type(members, homes)}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else kind
