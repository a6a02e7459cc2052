"""Texts in paths, queries and headers that no parser expects: a 4xx or the usual answer, and never a 5xx."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from exchange_kit import waiting_job
from gateway_kit import Tenant
from inprocess_kit import Gateway
from tiers import cells

CANARY = "zq-malformed-6631"
# Digits for `str.isdigit` but not for `int`, digits of other scripts, and what breaks lengths, paths and encodings.
FEW = ("²", "9" * 5000, "\0", "{x}", CANARY)
TEXTS = (*FEW, "x", "١", "-1", "1e5", "0x1", "NaN", "..", "%", "a:b", "é" * 40, "\ud7ff")
METHODS = ("get", "post", "delete")


@pytest.fixture(scope="module")
def document(gateway: Gateway) -> dict[str, Any]:
    return gateway.anyone.get("/openapi.json").json()


def _header(text: str) -> bytes:
    """As bytes that the server decodes to this very text, where there are such."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


ENDLESS = "/budget/events"  # an answer without an end does not arrive in the process of a test


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    for path, operations in document["paths"].items():
        if path == ENDLESS:
            continue
        for method in METHODS:
            if method in operations:
                yield method, path, operations[method].get("parameters", [])


@pytest.mark.parametrize("texts", cells([[*FEW], [*TEXTS[len(FEW) :]]], kind="fuzzing"), ids=["few", "others"])
def test_every_parameter_takes_any_text(
    gateway: Gateway, tenant: Tenant, document: dict[str, Any], texts: list[str]
) -> None:
    tried = 0
    for method, path, parameters in _operations(document):
        client = gateway.admin if path.startswith("/admin/") else tenant.http
        for parameter in parameters:
            for text in texts:
                target, query, headers = path, {}, {}
                if parameter["in"] == "path":
                    target = target.replace(f"{{{parameter['name']}}}", quote(text, safe=""))
                elif parameter["in"] == "query":
                    query = {parameter["name"]: text}
                else:
                    headers = {parameter["name"].encode(): _header(text)}
                answer = client.request(method, target.replace("{tenant}", tenant.name), params=query, headers=headers)
                assert answer.status_code < 500, (method, path, parameter["name"], text, answer.text)
                if method != "get" or text == CANARY:
                    assert CANARY not in answer.text.replace(answer.headers["x-request-id"], "")
                tried += 1
    assert tried > 200, "the document is read"


def test_headers_that_every_route_reads(gateway: Gateway, tenant: Tenant) -> None:
    for text in TEXTS:
        raw = _header(text)
        names = ("Authorization", "X-Request-ID", "traceparent", "Content-Type", "Idempotency-Key", "Accept", "Expect")
        for name in names:
            headers = [(name.encode(), raw)] + (
                [(b"Content-Type", b"application/json")] if name != "Content-Type" else []
            )
            answer = tenant.http.post("/embed/sentdp", content=b"{}", headers=headers)
            assert answer.status_code < 500, name
            assert CANARY not in answer.text.replace(answer.headers["x-request-id"], "")
        basic = gateway.anyone.get("/budget", headers={b"Authorization": b"Bearer " + raw})
        assert basic.status_code == 401


def test_cancelling_a_job_that_cannot_exist(tenant: Tenant) -> None:
    for text in ("x", "²", "0" * 31, "A" * 32, "0" * 33, "0" * 32):
        answer = tenant.http.post(f"/jobs/{text}/cancel")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-job")


def test_an_event_id_that_is_no_number_is_no_event_id(gateway: Gateway, tenant: Tenant) -> None:
    store = gateway.service.jobs.store
    job_id = gateway.on_loop(waiting_job(store, tenant.name)).job_id
    gateway.on_loop(store.cancel(tenant.name, job_id))
    for text in ("²", "١", "-1", "9" * 5000, "", "+1", "1_0"):
        answer = tenant.http.get(f"/jobs/{job_id}/events", headers={b"Last-Event-ID": _header(text)})
        assert answer.status_code == 200
        assert "event: cancelled" in answer.text


def test_a_length_that_is_no_number_is_counted_instead(tenant: Tenant) -> None:
    for length in ("²", "9" * 5000, "-1", "x"):
        headers = {b"Content-Length": _header(length), b"Content-Type": b"application/json"}
        answer = tenant.http.post("/embed/sentdp", content=b"{}", headers=headers)
        assert answer.status_code in (413, 422)


def test_no_path_is_repeated_by_a_redirect(tenant: Tenant) -> None:
    for path in (f"/jobs/{CANARY}/", "/jobs/", f"/budget/?{CANARY}", f"//{CANARY}", f"/models/projections/{CANARY}/"):
        answer = tenant.http.get(path)
        assert answer.status_code == 404 or answer.headers["location"] == "/dashboard/playground", path
        assert CANARY not in str(answer.headers) + answer.text
