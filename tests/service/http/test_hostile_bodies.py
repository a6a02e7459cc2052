"""Bodies that are made to cost time or memory: one clear problem, few errors, nothing charged, nothing repeated.

The attacks are derived from the OpenAPI document, so that a new endpoint is attacked as soon as it exists.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway
from tiers import cells

from service.http import problems

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
            for choice in _choices(document, schema):
                yield f"{method.upper()} {path}", choice, document


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
            target = target[part.replace("~1", "/").replace("~0", "~")]
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


SECRET = "zq-hostile-4471"
ERRORS_MAX = 64
ANSWER_BYTES_MAX = 8192
MANY = 2_000


@pytest.fixture
def errors_found(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many errors the models have collected, for each body that they refused."""
    counted: list[int] = []
    made = problems.unfit_block

    def counting(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        counted.append(len(found))
        return made(found)

    monkeypatch.setattr(problems, "unfit_block", counting)
    return counted


def _attack(gateway: Gateway, tenant: Tenant, errors_found: list[int], place: Place, content: bytes) -> None:
    method, path = place.operation.split()
    client = tenant.http
    if path.startswith("/admin/"):
        client = gateway.admin
    elif path.startswith(("/keys", "/alerts")):
        client = gateway.with_key(tenant, "admin", "read").http
    for name, value in (("{job_id}", "0" * 32), ("{tenant}", tenant.name), ("{key_id}", "0" * 16), ("{name}", "own")):
        path = path.replace(name, value)
    answer = client.request(method, path, content=content, headers=_JSON)

    found = f"{place}: {answer.status_code} {answer.text[:300]}"
    assert answer.status_code in (400, 404, 413, 422), found
    assert answer.json().get("code") or answer.json()["error"]["code"], found
    assert len(answer.content) <= ANSWER_BYTES_MAX, found
    assert SECRET not in answer.text, found
    assert SECRET.replace("-", "_") not in answer.text, found
    assert max(errors_found, default=0) <= ERRORS_MAX, f"{place}: {errors_found} errors"
    errors_found.clear()


_JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def document(gateway: Gateway) -> dict[str, Any]:
    return gateway.anyone.get("/openapi.json").json()


@pytest.fixture
def spared(tenant: Tenant) -> Iterator[Tenant]:
    """A tenant that has spent and holds nothing, also afterwards."""
    yield tenant
    for account in tenant.http.get("/budget").json()["accounts"]:
        assert account["committed"]["epsilon"] == account["reserved"]["epsilon"] == 0.0


def _unlike(item: Any) -> Any:
    """A value of another type."""
    return {SECRET: SECRET} if not isinstance(item, dict) else SECRET


def test_every_list_of_a_body_has_a_limit(document: dict[str, Any]) -> None:
    found = places(document, "array")
    assert len(found) > 20, "the document is read"
    assert not [str(place) for place in found if "maxItems" not in place.schema]


def test_too_many_valid_items(gateway: Gateway, spared: Tenant, document: Any, errors_found: list[int]) -> None:
    for place in places(document, "array"):
        item = orjson.dumps(place.item())
        many = b"[" + b",".join([item] * (place.schema["maxItems"] + 1)) + b"]"
        content = orjson.dumps(place.body(SECRET)).replace(orjson.dumps(SECRET), many)
        _attack(gateway, spared, errors_found, place, content)


def test_too_many_wrong_items(gateway: Gateway, spared: Tenant, document: Any, errors_found: list[int]) -> None:
    for place in places(document, "array"):
        wrong = [_unlike(place.item())] * MANY
        _attack(gateway, spared, errors_found, place, orjson.dumps(place.body(wrong)))


def test_too_many_unknown_members(gateway: Gateway, spared: Tenant, document: Any, errors_found: list[int]) -> None:
    for place in places(document, "object"):
        if place.schema.get("additionalProperties") is False:
            many = {f"{SECRET}-{number}": number for number in range(MANY)}
            _attack(gateway, spared, errors_found, place, orjson.dumps(place.body(many)))


HUGE: dict[str, Callable[[], bytes]] = {
    "many empty objects": lambda: b"[" + b"{}," * 300_000 + b"{}]",
    "a million empty lists": lambda: b"[" + b"[]," * 1_000_000 + b"[]]",
    "lists in lists": lambda: b"[" + b"[[[[]]]]," * 300_000 + b"[]]",
    "a million empty strings": lambda: b"[" + b'"",' * 1_000_000 + b'""]',
    "a million keys": lambda: b"{" + b",".join(b'"%d":0' % number for number in range(700_000)) + b"}",
    "escaped quotes": lambda: b'["' + b'\\"' * 3_000_000 + b'"]',
    "a long key": lambda: b'{"' + b"k" * 7_000_000 + b'": 1}',
    "a long number": lambda: b"[" + b"1" * 7_000_000 + b"]",
    "a long fraction": lambda: b"[0." + b"1" * 7_000_000 + b"]",
    "a large exponent": lambda: b"[1e" + b"9" * 1_000_000 + b"]",
    "brackets alone": lambda: b"[" * 7_000_000,
}


@pytest.mark.parametrize("case", cells(HUGE, kind="fuzzing"))
def test_a_huge_value_at_the_root_and_in_a_member(
    gateway: Gateway, spared: Tenant, document: Any, errors_found: list[int], case: str
) -> None:
    value = HUGE[case]()
    roots = {place.operation: place for place in places(document, "object") if place.path == ()}
    for place in roots.values():
        _attack(gateway, spared, errors_found, place, value)
        member = next(iter(place.schema["properties"]))
        _attack(gateway, spared, errors_found, place, b'{"%s": %s}' % (member.encode(), value))


def test_an_embeddings_input_is_validated_in_one_shape(spared: Tenant, errors_found: list[int]) -> None:
    for first in ("text", 1, [1], {}, None, 1.5, True):
        errors_found.clear()
        body = {"model": SECRET, "input": [first] + [{SECRET: 1}] * MANY}
        answer = spared.http.post("/v1/embeddings", json=body)
        assert answer.status_code == 400
        assert errors_found == [1]
        assert SECRET not in answer.text


def test_values_are_limited_by_a_setting(spared: Tenant, gateway: Gateway) -> None:
    zeros = [0] * gateway.settings.json_values_max
    answer = spared.http.post("/embed/vector", json={"vectors": [zeros], "epsilon": 1.0})
    assert answer.status_code == 422
    assert str(gateway.settings.json_values_max) in answer.json()["detail"]


def test_forms_are_not_read(spared: Tenant) -> None:
    for header in ("text", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"):
        for path in ("/embed/sentdp", "/jobs/domain", "/sanitize/batch", "/embed/vector/safetensors"):
            answer = spared.http.post(path, content=b"a=1&" * 100_000, headers={"Content-Type": header})
            assert answer.status_code == 415, path


def test_many_query_members(spared: Tenant) -> None:
    query = "&".join(f"{SECRET}{number}={SECRET}" for number in range(1200))
    for path in ("/budget/series", "/jobs"):
        answer = spared.http.get(f"{path}?{query}")
        assert answer.status_code in (200, 422)
        assert SECRET not in answer.text
        assert len(answer.content) <= ANSWER_BYTES_MAX
    rows = spared.http.post(f"/jobs/domain?{query}", content=b"{}", headers={"Content-Type": "application/x-ndjson"})
    assert rows.status_code == 422
    assert SECRET not in rows.text
