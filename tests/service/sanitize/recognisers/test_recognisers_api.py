"""Recognisers of a tenant over HTTP: store, list, read, delete, try and use them, and what others can see."""

import contextlib
import json
import logging
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant, good
from inprocess_kit import Gateway

PATH = "/sanitize/recognisers"
CODES = {"entity": "PROJECT_CODE", "patterns": [r"PX-\d{4}"], "deny": ["Blue Fälcon"]}
TEXT = "PX-1234 is blue\nfälcon, say jo@example.org."
MASKED = "[PROJECT_CODE] is [PROJECT_CODE], say [EMAIL_ADDRESS]."


def put(tenant: Tenant, name: str, **members: Any) -> httpx.Response:
    return tenant.http.put(f"{PATH}/{name}", json=members)


def stored(tenant: Tenant, name: str = "codes", **members: Any) -> None:
    answer = put(tenant, name, **(members or CODES))
    assert answer.status_code in (200, 201), answer.text


def sanitize(tenant: Tenant, text: str = TEXT, fill: str = "class_marker", **mask: Any) -> httpx.Response:
    body = {"documents": [{"text": text}], "mask": mask, "fill": {"mode": fill}, "return_spans": True}
    return tenant.http.post("/sanitize", json=body)


def masked(tenant: Tenant, text: str = TEXT, **mask: Any) -> str:
    return str(good(sanitize(tenant, text, **mask))["data"][0]["text"])


def tried(tenant: Tenant, recogniser: dict[str, Any], text: str, **members: Any) -> httpx.Response:
    return tenant.http.post(f"{PATH}/test", json={"recogniser": recogniser, "text": text} | members)


def test_a_stored_recogniser_masks_what_a_request_names_it_for(tenant: Tenant) -> None:
    first = put(tenant, "codes", **CODES)
    assert first.status_code == 201
    assert {name: first.json()[name] for name in ("name", "entity", "patterns", "deny", "allow", "context")} == {
        "name": "codes", "entity": "PROJECT_CODE", "patterns": 1, "deny": 1, "allow": 0, "context": 0,
    }  # fmt: skip
    assert "lcon" not in first.text
    assert masked(tenant, recognisers=["codes"]) == MASKED
    assert masked(tenant, entities=["EMAIL_ADDRESS"]) == TEXT.replace("jo@example.org", "[EMAIL_ADDRESS]")
    assert masked(tenant, recognisers=["codes"], entities=["PROJECT_CODE"]).endswith("jo@example.org.")
    assert masked(tenant, recognisers=["codes"], language="de") == MASKED
    assert "PX-1234" in masked(
        tenant, recognisers=["codes"], entities=["PROJECT_CODE"], thresholds={"PROJECT_CODE": 0.9}
    )
    spans = sanitize(tenant, recognisers=["codes"]).json()["data"][0]["spans"]
    assert (spans[0]["end"], spans[0]["original_end"], spans[0]["recogniser"]) == (14, 7, "own.codes")
    surrogate = sanitize(tenant, recognisers=["codes"], fill="surrogate").json()["data"][0]["text"]
    assert surrogate[2] == "-"
    assert not surrogate.startswith("PX-1234")


def test_a_replaced_recogniser_is_used_at_once(tenant: Tenant) -> None:
    stored(tenant)
    assert masked(tenant, recognisers=["codes"]) == MASKED
    assert put(tenant, "codes", entity="OTHER_CODE", deny=["PX-1234"]).status_code == 200
    assert masked(tenant, recognisers=["codes"]).startswith("[OTHER_CODE] is blue\nfälcon")
    assert tenant.http.delete(f"{PATH}/codes").status_code == 204
    assert tenant.http.delete(f"{PATH}/codes").json()["code"] == "unknown-recogniser"
    refused = sanitize(tenant, recognisers=["codes"])
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")


def test_recognisers_are_listed_without_their_terms_and_read_with_them(tenant: Tenant) -> None:
    for name in ("c", "a", "b"):
        stored(tenant, name)
    page = tenant.http.get(PATH, params={"limit": 2}).json()
    assert [row["name"] for row in page["recognisers"]] == ["a", "b"]
    assert all(row["usable"] and row["entity"] == "PROJECT_CODE" and row["deny"] == 1 for row in page["recognisers"])
    rest = tenant.http.get(PATH, params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert [row["name"] for row in rest["recognisers"]] == ["c"]
    assert rest["next_cursor"] is None
    read = tenant.http.get(f"{PATH}/a").json()
    assert {name: read[name] for name in CODES} == CODES
    assert put(tenant, "d", **{name: read[name] for name in read if name not in ("name", "updated_ms")}).is_success
    assert tenant.http.get(f"{PATH}/zworykin").json()["code"] == "unknown-recogniser"


def test_another_tenant_sees_nothing_of_it(gateway: Gateway, tenant: Tenant) -> None:
    stored(tenant)
    other = gateway.tenant()
    assert other.http.get(PATH).json()["recognisers"] == []
    assert other.http.get(f"{PATH}/codes").status_code == 404
    assert other.http.delete(f"{PATH}/codes").status_code == 404
    assert sanitize(other, recognisers=["codes"]).status_code == 422


def test_roles_decide_who_changes_lists_and_tries(gateway: Gateway, tenant: Tenant) -> None:
    stored(tenant)
    reading, releasing = (gateway.with_key(tenant, role).http for role in ("read", "release"))
    assert reading.get(PATH).status_code == 200
    draft = {"recogniser": CODES, "text": TEXT}
    for refused in (
        reading.get(f"{PATH}/codes"), reading.put(f"{PATH}/codes", json=CODES), reading.delete(f"{PATH}/codes"),
        reading.post(f"{PATH}/test", json=draft), releasing.put(f"{PATH}/codes", json=CODES), releasing.get(PATH),
    ):  # fmt: skip
        assert (refused.status_code, refused.json()["code"]) == (403, "role-missing")
    assert releasing.post(f"{PATH}/test", json=draft).status_code == 200
    assert gateway.admin.get(PATH).json()["code"] == "wrong-scope"
    assert gateway.anyone.get(PATH).status_code == 401


def test_a_recogniser_that_cannot_be_used_is_refused_without_echo(tenant: Tenant) -> None:
    for body, field in [
        ({}, "patterns"), ({"entity": "zworykin", "deny": ["x1"]}, "entity"),
        ({"entity": "CODE", "patterns": ["ok", "zworykin("]}, "patterns.1"),
        ({"entity": "CODE", "patterns": ["(?:zworykin)*"]}, "patterns.0"),
        ({"entity": "CODE", "patterns": [r"\pL{1,30}7"] * 64}, "patterns.5"),
        ({"entity": "CODE", "deny": ["..."]}, "deny.0"), ({"entity": "CODE", "deny": ["zworykin" * 100]}, "deny.0"),
        ({"entity": "CODE", "deny": ["zworykin"], "allow": ["ZWORYKIN"]}, "allow"),
    ]:  # fmt: skip
        for answer, where in (
            (put(tenant, "codes", **body), field),
            (tried(tenant, body, "zworykin"), f"recogniser.{field}"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid-input"), answer.text
            assert answer.json()["errors"][0]["field"] == where
            assert "zworykin" not in answer.text.lower()
        assert tenant.http.get(PATH).json()["recognisers"] == []


def test_a_malformed_body_and_a_name_that_no_file_may_have_are_refused(tenant: Tenant) -> None:
    for body in ({"score": 0}, {"score": 1.1}, {"deny": "zworykin"}, {"zworykin 1": 1}, {"deny": [1]}):
        answer = put(tenant, "codes", **{"entity": "CODE", "deny": ["x1"]} | body)
        assert answer.status_code == 422
        assert "zworykin" not in answer.text
    for name in ("Codes", "-codes", "a" * 65, "a.b", "a%2Fb", "%2e%2e"):
        assert put(tenant, name, **CODES).status_code in (404, 405, 422)
    assert tenant.http.get(PATH).json()["recognisers"] == []


def test_a_mask_that_does_not_fit_is_refused_without_echo(tenant: Tenant) -> None:
    for mask in [
        {"recognisers": ["zworykin"]}, {"recognisers": ["../codes"]},
        {"recognisers": ["codes"], "techniques": ["vocabulary"]},
        {"recognisers": ["codes"], "entities": ["ZWORYKIN"]},
        {"recognisers": ["codes"], "thresholds": {"ZWORYKIN": 0.5}},
        {"recognisers": ["codes"], "thresholds": {"PROJECT_CODE": 2}}, {"entities": ["PROJECT_CODE"]},
        {"recognisers": ["codes"] * 17},
    ]:  # fmt: skip
        stored(tenant)
        answer = sanitize(tenant, **mask)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-input"), answer.text
        assert "zworykin" not in answer.text.lower()


def test_a_draft_shows_what_it_would_find_and_is_not_stored(tenant: Tenant) -> None:
    draft = CODES | {"patterns": [r"\d{6}"], "context": ["order"], "score": 0.2, "allow": ["000000"]}
    text = f"😀 Blue Fälcon: order 123456, 000000 {'-' * 80} 777777"
    answer = tried(tenant, draft, text)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["entity"], body["threshold"], body["total"]) == ("PROJECT_CODE", 0.4, 4)
    assert [
        (text[find["start"] : find["end"]], find["list"], find["context"], find["suppressed_by"])
        for find in body["finds"]
    ] == [
        ("Blue Fälcon", "deny", None, None), ("123456", "patterns", True, None),
        ("000000", "patterns", True, "allow"), ("777777", "patterns", False, "threshold"),
    ]  # fmt: skip
    assert "lcon" not in answer.text
    assert tenant.http.get(PATH).json()["recognisers"] == []
    assert all(tenant.account(unit)["committed"]["epsilon"] == 0 for unit in ("token", "sentence"))
    assert tried(tenant, draft, text, threshold=0.1).json()["finds"][3]["suppressed_by"] is None
    assert tried(tenant, draft, "x" * 100_001).json()["errors"][0]["field"] == "text"


def test_a_stream_names_recognisers_in_its_first_line(tenant: Tenant) -> None:
    stored(tenant)
    named = tenant.sanitize_lines({"mask": {"recognisers": ["codes"]}}, {"text": TEXT}, {"text": TEXT})
    assert [json.loads(row)["text"] for row in named.text.splitlines()[:2]] == [MASKED, MASKED]
    assert tenant.sanitize_lines({"mask": {"recognisers": ["unknown"]}}).status_code == 422


def test_priced_fills_mask_what_own_recognisers_find(tenant: Tenant) -> None:
    stored(tenant)
    body = {
        "documents": [{"text": TEXT}],
        "mask": {"recognisers": ["codes"]},
        "fill": {"mode": "metric_dp", "epsilon": 1.0},
    }
    answer = tenant.http.post("/sanitize", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["masked_tokens"] >= 4
    assert "PX-1234" not in answer.json()["data"][0]["text"]


def test_terms_are_on_the_disk_in_encrypted_form_alone_and_not_in_the_log(
    gateway: Gateway, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        stored(tenant, "codes", entity="CODE", patterns=["Zw[o]rykinpattern"], deny=["Zworykinterm"])
        put(tenant, "other", entity="CODE", patterns=["Zworykinpattern("])
        masked(tenant, "Zworykinterm", recognisers=["codes"])
    assert "rykin" not in caplog.text.lower()
    files = [path for path in gateway.data_dir.rglob("*") if path.is_file()]
    own = [path for path in files if tenant.name in path.parts and "recognisers" in path.parts]
    assert {path.name for path in own} == {"codes.recogniser", "key"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in own)
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # files come and go
            assert b"rykin" not in path.read_bytes(), path


def test_a_damaged_file_is_an_error_and_never_skipped(gateway: Gateway, tenant: Tenant) -> None:
    stored(tenant)
    stored(tenant, "whole")
    path = gateway.data_dir / "recognisers" / "tenants" / tenant.name / "codes.recogniser"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused = sanitize(tenant, recognisers=["codes"])
    assert (refused.status_code, refused.json()["code"]) == (422, "recogniser-broken")
    assert [row["usable"] for row in tenant.http.get(PATH).json()["recognisers"]] == [False, True]
    assert masked(tenant, recognisers=["whole"]) == MASKED
    other = path.with_name("whole.recogniser")
    path.write_bytes(other.read_bytes())
    assert sanitize(tenant, recognisers=["codes"]).json()["code"] == "recogniser-broken", "bound to its name"
    stored(tenant)
    assert masked(tenant, recognisers=["codes"]) == MASKED


def test_workers_of_their_own_load_a_large_list_and_a_long_document(real_tenant: Tenant) -> None:
    terms = [f"Customer {number:05d} Ltd" for number in range(100_000)]
    stored(real_tenant, "customers", entity="CUSTOMER", deny=terms)
    text = "We met customer 00017 LTD and Customer 99999\nLtd, not customer 100000 Ltd. " * 1_000
    expected = "We met [CUSTOMER] and [CUSTOMER], not customer 100000 Ltd. " * 1_000
    assert masked(real_tenant, text, recognisers=["customers"], entities=["CUSTOMER"]) == expected
    draft = {"entity": "CUSTOMER", "deny": terms}
    assert tried(real_tenant, draft, text[:50_000]).json()["total"] > 1_000
