"""Keys over HTTP: roles, rotation, a tenant that manages its own keys, the key that replaces the admin key."""

import csv
import io
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from alert_kit import until
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway

from core.state.keystore import KeyRole
from gpu_workers.remote.wire import PREFIX
from service.app import create_app, create_cluster_app
from service.http.auth import Needs, needs_of

# Pages have no data; each looks for a session by itself.
PAGES = {
    "/dashboard", "/dashboard/{view}", "/dashboard/static/{path:path}", "/dashboard/sign-on",
    "/dashboard/sign-on/done", "/dashboard/link", "/",
}  # fmt: skip
PUBLIC = {"/livez", "/readyz", "/metrics"} | PAGES
# The description of the API and its page, without a dependency.
DESCRIPTION = {"/openapi.json", "/docs", "/problems"} | {
    f"/static-offline-docs/{name}" for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")
}


keyed = module_gateway(ADMIN_KEY_PREVIOUS="p" * 40)


def routes(app: FastAPI) -> Iterator[tuple[str, str, list[Needs]]]:
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute):
            for method in sorted(route.methods):
                yield method, route.path, list(needs_of(route.dependant))
        else:
            assert getattr(route, "path", "") in DESCRIPTION, route


def test_every_route_declares_one_role_or_is_public(keyed: Gateway) -> None:
    found = {(method, path): needs for method, path, needs in routes(create_app(keyed.service))}
    assert len(found) > 40
    for (method, path), needs in found.items():
        assert len(needs) == (0 if path in PUBLIC | DESCRIPTION else 1), f"{method} {path}"
    of = {key: needs[0] for key, needs in found.items() if needs}
    for (_, path), needs in of.items():
        if path.startswith("/admin"):
            assert (needs.role, needs.operator) == (None, True), path
        elif needs.operator:
            assert path.startswith(("/jobs", "/domains", "/dashboard")), path
        else:
            assert needs.role is not None, path
    assert of["POST", "/embed/sentdp"].role is KeyRole.RELEASE
    assert of["POST", "/sanitize/batch"].role is KeyRole.RELEASE
    assert of["GET", "/budget"].role is KeyRole.READ
    assert of["GET", "/jobs/{job_id}/artifact"].role is KeyRole.JOBS
    assert of["POST", "/keys"].role is KeyRole.ADMIN


def test_the_port_of_the_cluster_serves_what_no_other_port_does(keyed: Gateway) -> None:
    """Its routes have the credentials of attempts (`tests/service/ray`), and no key opens them."""
    found = {path for _, path, needs in routes(create_cluster_app(keyed.service)) if not needs}
    assert {path for path in found if path.startswith(PREFIX)} == found - DESCRIPTION
    assert len(found - DESCRIPTION) == 4
    assert not {path for _, path, _ in routes(create_app(keyed.service)) if path.startswith(PREFIX)}


CALLS: dict[str, tuple[str, str, Any]] = {
    "release": ("POST", "/embed/sentdp", {"documents": [{"text": "One. Two. Three."}], "epsilon": 1.0}),
    "read": ("GET", "/budget", None),
    "jobs": ("GET", "/jobs", None),
    "admin": ("GET", "/keys", None),
}


def test_a_key_does_what_its_role_says_and_nothing_else(keyed: Gateway) -> None:
    tenant = keyed.tenant()
    clients = {role: keyed.with_key(tenant, role).http for role in CALLS}
    for (role, client), (needed, (method, path, body)) in itertools.product(clients.items(), CALLS.items()):
        answer = client.request(method, path, json=body)
        if needed == role:
            assert answer.status_code == 200, answer.text
        else:
            assert answer.status_code == 403
            assert (answer.json()["code"], answer.json()["role"]) == ("role-missing", needed)


def test_the_role_is_checked_before_the_body_is_read(keyed: Gateway) -> None:
    answer = keyed.with_key(keyed.tenant(), "read").http.post("/embed/sentdp", content=b"not json")
    assert (answer.status_code, answer.json()["code"]) == (403, "role-missing")


def test_a_key_without_stated_roles_does_what_it_always_could(keyed: Gateway) -> None:
    tenant = keyed.tenant()
    made = keyed.admin.post(f"/admin/tenants/{tenant.name}/keys")
    assert (made.status_code, made.json()["roles"]) == (201, ["jobs", "read", "release"])
    for key in (tenant.key, made.json()["key"]):
        answers = {role: keyed.client(key).request(*call[:2], json=call[2]).status_code for role, call in CALLS.items()}
        assert answers == {"release": 200, "read": 200, "jobs": 200, "admin": 403}


def test_a_tenant_manages_its_own_keys_and_no_others(keyed: Gateway) -> None:
    tenant, other = keyed.tenant(), keyed.tenant()
    own = keyed.with_key(tenant, "admin").http
    made = own.post("/keys", json={"roles": ["read"], "label": "dashboard", "expires_s": 3600})
    assert made.status_code == 201, made.text
    key_id = made.json()["key_id"]
    assert made.json()["key"].split("_")[1] == key_id
    assert keyed.client(made.json()["key"]).get("/budget").status_code == 200

    rotated = own.post(f"/keys/{key_id}/rotate", json={"overlap_s": 0})
    assert rotated.status_code == 201, rotated.text
    assert (rotated.json()["roles"], rotated.json()["label"]) == (["read"], "dashboard")
    assert keyed.client(made.json()["key"]).get("/budget").status_code == 401
    assert keyed.client(rotated.json()["key"]).get("/budget").status_code == 200

    listed = own.get("/keys").json()["keys"]
    assert {key["tenant"] for key in listed} == {tenant.name}
    assert all("key" not in key and "mac" not in key for key in listed)
    assert own.delete(f"/keys/{rotated.json()['key_id']}").json()["revoked_ms"] is not None
    assert keyed.client(rotated.json()["key"]).get("/budget").status_code == 401

    foreign = other.key.split("_")[1]
    assert own.delete(f"/keys/{foreign}").json()["code"] == "unknown-key"
    assert own.post(f"/keys/{foreign}/rotate", json={"overlap_s": 0}).json()["code"] == "unknown-key"
    assert own.get(f"/admin/tenants/{tenant.name}/budgets").json()["code"] == "wrong-scope"
    assert other.embed().status_code == 200


def test_the_words_of_a_key_are_where_its_releases_are(keyed: Gateway) -> None:
    tenant = keyed.tenant()
    words = {"label": "nightly", "purpose": "search index", "recipient": "Team A"}
    own = keyed.with_key(tenant, "admin", "read").http
    made = own.post("/keys", json=words).json()
    again = own.post(f"/keys/{made['key_id']}/rotate", json={"overlap_s": 60}).json()
    assert {name: again[name] for name in words} == words
    assert Tenant(tenant.name, again["key"], keyed.client(again["key"])).embed().status_code == 200

    expected = {"key_label": "nightly", "purpose": "search index", "recipient": "Team A"}
    account = f"/budget/{tenant.name}/sentence"
    entry = own.get(f"{account}/journal?transition=commit").json()["entries"][0]
    [line] = csv.DictReader(io.StringIO(own.get(f"{account}/journal/export?format=csv&transition=commit").text))
    rows = until(lambda: own.get(f"{account}/spending?by=key").json()["rows"])
    for found in (entry, line, rows[0]):
        assert {name: found[name] for name in expected} == expected
    opened = own.get(f"{account}/journal?transition=open").json()["entries"][0]
    assert {opened[name] for name in expected} == {None}
    log = keyed.admin.get("/admin/audit?limit=1000").json()["entries"]
    logged = next(entry["details"] for entry in log if entry["target"].endswith(again["key_id"]))
    assert logged.items() >= words.items()


def test_the_words_of_a_request_come_before_those_of_its_key(keyed: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    tenant = keyed.tenant()
    own = keyed.with_key(tenant, "admin", "read").http
    made = own.post("/keys", json={"purpose": "search index", "recipient": "Team A"}).json()
    caller = Tenant(tenant.name, made["key"], keyed.client(made["key"]))
    caller.http.headers["X-Recipient"] = "Team B"
    with caplog.at_level("INFO", logger="privacy_gateway.access"):
        assert caller.embed().status_code == 200
    [logged] = [record for record in caplog.records if record.name == "privacy_gateway.access"]
    assert logged.__dict__["fields"]["recipient"] == "Team B"
    terms = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 1}}
    assert '"release_id"' in caller.sanitize_lines(terms, {"text": "words"}).text

    account = f"/budget/{tenant.name}/sentence"
    entry = own.get(f"{account}/journal?transition=commit").json()["entries"][0]
    [line] = csv.DictReader(io.StringIO(own.get(f"{account}/journal/export?format=csv&transition=commit").text))
    streamed = own.get(f"/budget/{tenant.name}/token/journal?route=sanitize/batch").json()["entries"]
    for found in (entry, line, *streamed):
        assert (found["purpose"], found["recipient"]) == ("search index", "Team B")
    record = {each["field"]: each["value"] for each in own.get("/budget/statement").json()["statement"]["processing"]}
    assert record["(b) purposes"] == "search index"
    assert record["(d) recipients"].endswith("Stated: Team A; Team B")

    for header, wrong in (("X-Purpose", "a" * 65), ("X-Recipient", "Team <B>")):
        caller.http.headers[header] = wrong
        refused = caller.embed()
        del caller.http.headers[header]
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, header)
        assert "up to 64 of A-Z" in refused.text
    assert len(streamed) == 2
    assert len(own.get(f"{account}/journal?transition=reserve").json()["entries"]) == 1


def test_invalid_terms_are_refused(keyed: Gateway) -> None:
    for body in ({"roles": []}, {"roles": ["owner"]}, {"expires_s": 0}, {"label": "a\nb"}, {"overlap_s": 1}):
        answer = keyed.admin.post(f"/admin/tenants/{keyed.tenant().name}/keys", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-input")


def test_the_previous_admin_key_works_beside_the_new_one(keyed: Gateway) -> None:
    for client in (keyed.admin, keyed.client("p" * 40)):
        assert client.get("/admin/tenants").status_code == 200
    assert keyed.client("p" * 39).get("/admin/tenants").status_code == 401
