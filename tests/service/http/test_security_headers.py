"""Security headers are on every answer, whoever makes it: a route, an error handler, a middleware."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from inprocess_kit import Gateway, module_gateway

from service.http.middleware import JsonLines

HSTS = "max-age=31536000; includeSubDomains"


secured = module_gateway(HSTS_MAX_AGE_S="31536000", BODY_BYTES_MAX="1024")


ANSWERS: dict[str, tuple[int, str, str, dict[str, Any]]] = {
    "a route": (200, "GET", "/budget", {}), "no key": (401, "GET", "/budget", {"headers": {"Authorization": ""}}),
    "another scope": (403, "GET", "/admin/tenants", {}), "no such path": (404, "GET", "/nothing", {}),
    "another method": (405, "PUT", "/budget", {}),
    "a middleware": (413, "POST", "/sanitize", {"content": bytes(2000), "headers": {"Content-Type": "text/plain"}}),
    "another type": (415, "POST", "/sanitize", {"content": b"x"}),
    "invalid": (422, "POST", "/sanitize", {"json": {}}), "under /v1": (400, "POST", "/v1/embeddings", {"json": {}}),
    "metrics": (200, "GET", "/metrics", {}),
}  # fmt: skip


def test_every_answer_has_them(secured: Gateway) -> None:
    tenant = secured.tenant()
    for case, (status, method, path, fields) in ANSWERS.items():
        answer = tenant.http.request(method, path, **fields)
        assert answer.status_code == status, case
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert_fixed(answer)


def assert_fixed(answer: Any) -> None:
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["strict-transport-security"] == HSTS


def test_an_unforeseen_error_has_them_and_its_place_is_logged_without_its_message(
    secured: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("Dr. Brown")

    monkeypatch.setattr(secured.service.ledger, "accounts_page", broken)
    answer = secured.tenant().http.get("/budget")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert_fixed(answer)
    (record,) = [each for each in caplog.records if each.getMessage() == "unforeseen"]
    shown = [JsonLines(is_terminal=is_terminal).format(record) for is_terminal in (False, True)]
    for line in shown:
        assert "RuntimeError" in line
        assert re.search(r"test_security_headers\.py:\d+ broken", line)
        assert "Brown" not in line
    assert datetime.fromisoformat(json.loads(shown[0])["time"]).tzinfo is UTC
    assert re.match(r"\d\d:\d\d:\d\d ERROR unforeseen ", shown[1])


def test_the_api_page_may_run_its_own_script_and_nothing_from_elsewhere(secured: Gateway) -> None:
    answer = secured.anyone.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self'; script-src 'self' 'unsafe-inline'")
    assert "http" not in answer.headers["content-security-policy"]
    assert_fixed(answer)


def test_without_the_setting_there_is_no_promise_of_tls(gateway: Gateway) -> None:
    assert "strict-transport-security" not in gateway.anyone.get("/livez").headers
