"""Bodies that are made to cost time or memory: one clear problem, few errors, nothing charged, nothing repeated.

The attacks are derived from the OpenAPI document, so that a new endpoint is attacked as soon as it exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway
from openapi_kit import Place, places

from service.http import problems

SECRET = "zq-hostile-4471"
ERRORS_MAX = 64
ANSWER_BYTES_MAX = 8192
MANY = 10_000


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
        roles = {"roles": ["admin", "read"]}
        made = gateway.admin.post(f"/admin/tenants/{tenant.name}/keys", json=roles)
        client = gateway.client(made.json()["key"])
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


HUGE = {
    "a million empty objects": b"[" + b"{}," * 1_000_000 + b"{}]",
    "a million empty lists": b"[" + b"[]," * 1_000_000 + b"[]]",
    "lists in lists": b"[" + b"[[[[]]]]," * 300_000 + b"[]]",
    "a million empty strings": b"[" + b'"",' * 1_000_000 + b'""]',
    "a million keys": b"{" + b",".join(b'"%d":0' % number for number in range(700_000)) + b"}",
    "escaped quotes": b'["' + b'\\"' * 3_000_000 + b'"]',
    "a long key": b'{"' + b"k" * 7_000_000 + b'": 1}',
    "a long number": b"[" + b"1" * 7_000_000 + b"]",
    "a long fraction": b"[0." + b"1" * 7_000_000 + b"]",
    "a large exponent": b"[1e" + b"9" * 1_000_000 + b"]",
    "brackets alone": b"[" * 7_000_000,
}


FAST = ("a million empty objects",)


@pytest.mark.parametrize(
    "case", [*FAST, *(pytest.param(name, marks=pytest.mark.slow("fuzzing")) for name in HUGE if name not in FAST)]
)
def test_a_huge_value_at_the_root_and_in_a_member(
    gateway: Gateway, spared: Tenant, document: Any, errors_found: list[int], case: str
) -> None:
    roots = {place.operation: place for place in places(document, "object") if place.path == ()}
    for place in roots.values():
        _attack(gateway, spared, errors_found, place, HUGE[case])
        member = next(iter(place.schema["properties"]))
        _attack(gateway, spared, errors_found, place, b'{"%s": %s}' % (member.encode(), HUGE[case]))


@pytest.mark.parametrize("first", ["text", 1, [1], {}, None, 1.5, True])
def test_an_embeddings_input_is_validated_in_one_shape(spared: Tenant, errors_found: list[int], first: object) -> None:
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


@pytest.mark.parametrize("header", ["text", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"])
def test_forms_are_not_read(spared: Tenant, header: str) -> None:
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
