"""`POST /sanitize` with `reversible`, and `POST /restore`."""

from typing import Any

import httpx
import pytest
from gateway_kit import Tenant, good
from inprocess_kit import Gateway
from model_kit import left_in

from core.master_key import MasterKey
from service.restore.tokens import RestoreTokens

TEXTS = ["Maria Keller asks about card 4111 1111 1111 1111.", "Call Maria Keller or Jonas Weber on +44 20 7946 0958."]
ORIGINALS = ("Maria", "Keller", "Jonas", "Weber", "1111 1111", "7946 0958")


def masked(tenant: Tenant, *texts: str, **fields: Any) -> httpx.Response:
    body = {"documents": [{"text": text} for text in texts or TEXTS], "reversible": True} | fields
    return tenant.http.post("/sanitize", json=body)


def restored(tenant: Tenant, token: str, *texts: str) -> httpx.Response:
    return tenant.http.post("/restore", json={"texts": list(texts), "restore_token": token})


@pytest.mark.parametrize("mode", ["surrogate", "class_marker", "marker"])
def test_a_token_puts_the_originals_back(tenant: Tenant, mode: str) -> None:
    body = good(masked(tenant, fill={"mode": mode}))
    assert body["privacy"]["guarantee"] == "none"
    shown = [row["text"] for row in body["data"]]
    for text, row in zip(TEXTS, shown, strict=True):  # the surrogate of a text may be a name of the other text
        assert not left_in(row, [original for original in ORIGINALS if original in text])
    back = restored(tenant, body["restore_token"], *shown)
    assert [row["text"] for row in back.json()["data"]] == TEXTS
    assert back.headers["cache-control"] == "no-store"


def test_a_summary_of_the_documents_is_restored(tenant: Tenant) -> None:
    body = masked(tenant, "Maria Keller met Jonas Weber.", fill={"mode": "class_marker"}).json()
    assert body["data"][0]["text"] == "[PERSON_1] met [PERSON_2]."
    back = restored(tenant, body["restore_token"], "Was [PERSON_2] late? [PERSON_1]'s watch says so. [PERSON_3]?")
    assert back.json()["data"][0]["text"] == "Was Jonas Weber late? Maria Keller's watch says so. [PERSON_3]?"


def test_spans_tell_where_the_originals_stood(tenant: Tenant) -> None:
    row = masked(tenant, TEXTS[1], return_spans=True, fill={"mode": "class_marker"}).json()["data"][0]
    found = [TEXTS[1][span["original_start"] : span["original_end"]] for span in row["spans"]]
    assert found == ["Maria Keller", "Jonas Weber", "+44 20 7946 0958"]
    shown = [row["text"][span["start"] : span["end"]] for span in row["spans"]]
    assert shown == ["[PERSON_1]", "[PERSON_2]", "[PHONE_NUMBER_1]"]


def test_a_token_is_of_one_tenant_and_cannot_be_changed(gateway: Gateway, tenant: Tenant) -> None:
    body = masked(tenant).json()
    token, text = body["restore_token"], body["data"][0]["text"]
    changed = token[:-6] + ("A" if token[-6] != "A" else "B") + token[-5:]
    for asking, wrong in ((gateway.tenant(), token), (tenant, changed), (tenant, ""), (tenant, "é" * 40)):
        refused = restored(asking, wrong, text)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] == "restore_token"
        assert not [original for original in ORIGINALS if original in refused.text]


def test_a_token_ends(gateway: Gateway, tenant: Tenant) -> None:
    sealing = gateway.service.parts[RestoreTokens]
    surrogates = sealing.open(tenant.name, masked(tenant).json()["restore_token"])
    key = gateway.service.parts[MasterKey].restore_key
    old = RestoreTokens(key, lifetime_s=60, clock=lambda: 1_000.0)
    token, ends_at = old.seal(tenant.name, surrogates)
    assert ends_at == 1_060
    assert old.open(tenant.name, token).pairs == surrogates.pairs
    assert restored(tenant, token, "x").status_code == 422


def test_what_cannot_be_restored_is_refused(tenant: Tenant) -> None:
    document = {"text": "{}", "format": "json"}
    for fields in ({"fill": {"mode": "dp", "epsilon": 1.0}}, {"dry_run": True}, {"documents": [document]}):
        refused = masked(tenant, **({"fill": {"mode": "surrogate"}} | fields))
        assert refused.status_code == 422
        assert "reversible" in refused.text.lower()
