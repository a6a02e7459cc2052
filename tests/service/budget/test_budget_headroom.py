"""`GET /budget/{account}/headroom` promises numbers of real requests, and `POST /budget/estimate` says `fits`."""

import math
from typing import Any

from gateway_kit import DOCUMENT, Tenant, good
from inprocess_kit import Gateway

PRESET = "minilm-sentdp-eps10"


def headroom(tenant: Tenant, account: str, **query: Any) -> dict[str, Any]:
    return good(tenant.http.get(f"/budget/{account}/headroom", params=query))


def row_of(found: dict[str, Any], **names: Any) -> dict[str, Any]:
    [row] = [row for row in found["requests"] if names.items() <= row.items()]
    return row


def test_the_promised_number_of_requests_is_answered_and_the_next_refused(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=35)
    account = f"{tenant.name}/sentence"
    presets = headroom(tenant, account)
    assert presets["epsilon"] is None
    assert row_of(presets, preset=PRESET)["fits"] == 3
    assert row_of(presets, preset=PRESET)["mechanism"] == "sentence_codes"
    assert all(row["preset"] for row in presets["requests"])

    found = headroom(tenant, account, epsilon=12)
    assert found["unpriced"] == []
    row = row_of(found, preset=None, endpoint="embed/sentdp", mechanism="clipped_cosine")
    assert row["fits"] == 2
    assert row["binding"] == {"account": account, "arm": "basic", "order": None}
    assert {line["account"]: line["fits"] for line in row["accounts"]} == {account: 2, f"{tenant.name}/token": 2}
    estimated = tenant.http.post(
        "/budget/estimate", json={"documents": [{"text": DOCUMENT}], "epsilon": 12, "mechanism": "clipped_cosine"}
    ).json()
    assert (estimated["fits"], [line["fits"] for line in estimated["accounts"]]) == (2, [2, 2])

    for status in (200, 200, 403):
        assert tenant.embed(epsilon=12, mechanism="clipped_cosine").status_code == status
    assert row_of(headroom(tenant, account), preset=PRESET)["fits"] == 1
    body = {"model": PRESET, "input": DOCUMENT}
    assert [tenant.http.post("/v1/embeddings", json=body).status_code for _ in range(2)] == [200, 403]


def test_the_rows_of_each_account_are_what_debits_it(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=100, delta=1e-6)
    names = {
        unit: {row["mechanism"] for row in headroom(tenant, f"{tenant.name}/{unit}", epsilon=1)["requests"]}
        for unit in ("token", "sentence", "vector", "record")
    }
    assert {"sentence_codes", "sentence_codes_words", "dp_fill_slot", "metric_dp_laplace", "privunit"} <= names["token"]
    assert "sentence_codes" in names["sentence"]
    assert "sentence_codes_words" not in names["sentence"]
    assert {"privemb", "laplace", "metric_dp_exponential"} <= names["vector"]
    assert names["record"] == set()

    row = row_of(headroom(tenant, f"{tenant.name}/token", epsilon=1), mechanism="dp_fill_slot")
    assert row["binding"]["arm"] == "renyi"
    assert row["binding"]["order"] > 1
    assert row["fits"] > 100, "more than the sum admits"


def test_a_plans_epsilon_is_the_default(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=3, delta=1e-6, plans={"clipped_cosine": 0.5})
    found = headroom(tenant, f"{tenant.name}/sentence")
    assert found["epsilon"] == 0.5
    count = tenant.account()["plan"]["releases"]["remaining"]
    planned = row_of(found, endpoint="embed/sentdp", mechanism="clipped_cosine")
    assert (planned["fits"], planned["binding"]["arm"]) == (count, "plan")
    assert row_of(found, endpoint="embed/sentdp", mechanism="sentence_codes")["binding"]["arm"] == "plan-mismatch"


def test_headroom_of_no_epsilon_is_refused(gateway: Gateway, tenant: Tenant) -> None:
    for wrong in ("0", "-1", "1e9", "nan", "marker"):
        refused = tenant.http.get(f"/budget/{tenant.name}/sentence/headroom", params={"epsilon": wrong})
        assert refused.status_code == 422, wrong
        assert "marker" not in refused.text
    assert math.isfinite(headroom(tenant, f"{tenant.name}/vector", epsilon=1)["requests"][0]["fits"])


def test_headroom_counts_what_was_really_used(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=20)
    account = f"{tenant.name}/sentence"
    assert headroom(tenant, account)["used"] == []
    for _ in range(2):
        assert tenant.embed([{"text": DOCUMENT}, {"text": "Another."}], epsilon=0.25).status_code == 200
    body = {"model": PRESET, "input": DOCUMENT}
    assert tenant.http.post("/v1/embeddings", json=body).status_code == 200

    found = headroom(tenant, account)
    assert found["epsilon"] == 0.25, "by default that of most releases"
    most, preset = found["used"]
    assert (most["mechanism"], most["epsilon"], most["releases"], most["fits"]) == ("sentence_codes", 0.25, 4, 36)
    assert (preset["epsilon"], preset["releases"], preset["fits"]) == (10, 1, 0)
    assert row_of(found, preset=None, endpoint="embed/sentdp", mechanism="sentence_codes")["fits"] == 36
    limit = gateway.admin.put(f"/admin/tenants/{tenant.name}/budgets/token/limit", json={"epsilon": 12})
    assert limit.status_code == 200
    most = headroom(tenant, account)["used"][0]
    assert (most["fits"], most["binding"]["account"]) == (4, f"{tenant.name}/token"), "the account that refuses first"


def test_headroom_of_a_plan_counts_its_releases(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=3, delta=1e-6, plans={"clipped_cosine": 0.5})
    assert tenant.embed(epsilon=0.5, mechanism="clipped_cosine").status_code == 200
    [used] = headroom(tenant, f"{tenant.name}/sentence")["used"]
    assert used["fits"] == tenant.account()["plan"]["releases"]["remaining"]
    assert used["binding"]["arm"] == "plan"
