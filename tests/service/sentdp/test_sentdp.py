"""`POST /embed/sentdp`: what a caller gets, what it costs, and what happens at the edge of a budget."""

import base64
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from gateway_kit import DOCUMENT, Tenant
from inprocess_kit import Gateway

MECHANISMS = ("sentence_codes", "clipped_cosine", "deep_candidate")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_document_is_released_with_its_guarantee_and_its_price(tenant: Tenant, mechanism: str) -> None:
    answer = tenant.embed([{"id": "a", "text": DOCUMENT}], epsilon=2.5, mechanism=mechanism)

    assert answer.status_code == 200, answer.text
    body = answer.json()
    (row,) = body["data"]
    assert row["index"] == 0
    assert row["id"] == "a"
    assert row["sentences"] == 6
    assert len(row["embedding"]) == body["dimension"] == 384
    assert np.isfinite(row["embedding"]).all()
    assert body["privacy"]["guarantee"] == "pure-dp"
    assert body["privacy"]["unit"] == "sentence"
    assert body["privacy"]["epsilon"] == 2.5
    assert body["privacy"]["delta"] == 0.0
    assert body["privacy"]["mechanism"] == mechanism
    assert body["budget"]["committed"]["epsilon"] == 2.5
    assert body["budget"]["remaining"]["epsilon"] == 997.5
    assert body["usage"] == {"documents": 1, "sentences": 6}
    assert answer.headers["cache-control"] == "no-store"
    assert "server-timing" not in answer.headers
    assert tenant.committed("sentence") == 2.5
    assert tenant.committed("token") == 2.5, "a sentence-level release is a token-level one, too"
    assert tenant.committed("record") == 0.0


def test_every_document_of_a_call_is_charged(tenant: Tenant) -> None:
    documents = [{"text": DOCUMENT}, {"sentences": ["One sentence.", "Another one."]}, {"text": "Alone."}]
    body = tenant.embed(documents, epsilon=0.1).json()
    assert [row["sentences"] for row in body["data"]] == [6, 2, 1]
    assert [row.get("utility") for row in body["data"]] == [None, None, "low"]
    assert tenant.committed() == 0.3, "exactly: amounts are integers"


def test_the_callers_own_sentence_embeddings(tenant: Tenant) -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 384))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    released = tenant.embed([{"embeddings": unit.tolist()}])
    assert released.status_code == 200, released.text
    assert released.json()["data"][0]["sentences"] == 4
    assert tenant.embed([{"embeddings": vectors.tolist()}]).status_code == 422
    assert tenant.embed([{"embeddings": vectors.tolist()}], normalize=True).status_code == 200


def test_base64_holds_the_same_kind_of_vector(tenant: Tenant) -> None:
    row = tenant.embed(encoding_format="base64").json()["data"][0]
    vector = np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4")
    assert vector.shape == (384,)
    assert np.isfinite(vector).all()


def test_a_budget_of_five_admits_exactly_five(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=0.5)
    answers = [tenant.embed(epsilon=0.1) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [403]
    refusal = answers[5].json()
    assert answers[5].headers["content-type"] == "application/problem+json"
    assert refusal["code"] == "budget-exhausted"
    assert refusal["type"].endswith("budget-exhausted")
    assert refusal["requested"] == {"epsilon": 0.1, "delta": 0.0}
    assert refusal["remaining"] == {"epsilon": 0.0, "delta": 0.0}
    assert tenant.committed() == 0.5


def test_a_stampede_gets_exactly_the_budget(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=20)
    with ThreadPoolExecutor(64) as clients:
        codes = list(clients.map(lambda _: tenant.embed(epsilon=1).status_code, range(64)))
    assert sorted(codes) == [200] * 20 + [403] * 44
    assert tenant.committed() == 20.0
    assert tenant.account()["reserved"]["epsilon"] == 0.0


def test_same_key_same_body_is_the_same_answer_and_costs_nothing(tenant: Tenant) -> None:
    headers = {"Idempotency-Key": "order-7"}

    first = tenant.embed(headers=headers)
    again = tenant.embed(headers=headers)

    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    assert first.headers["idempotency-replayed"] == "false"
    assert again.headers["idempotency-replayed"] == "true"
    assert tenant.committed() == 1.0

    other = tenant.embed(headers=headers, epsilon=2.0)
    assert other.status_code == 422
    assert other.json()["code"] == "idempotency-conflict"
    assert tenant.committed() == 1.0


def test_the_key_that_the_gateway_made_can_be_used_again(tenant: Tenant) -> None:
    first = tenant.embed()
    again = tenant.embed(headers={"Idempotency-Key": first.headers["idempotency-key"]})
    assert first.content == again.content
    assert tenant.committed() == 1.0


def test_a_repeat_without_a_key_is_a_release_of_its_own(tenant: Tenant) -> None:
    """Unless the operator reuses releases, which is off by default (`test_reuse.py`)."""
    first, again = tenant.embed(), tenant.embed()
    assert first.json()["data"] != again.json()["data"]
    assert not {"reused", "repeats"} & set(again.json()["privacy"])
    assert tenant.committed() == 2.0


def test_subjects_cost_in_parallel_and_each_has_its_own_limit(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1000, subject_epsilon=2)
    documents = [{"text": DOCUMENT, "subject": "ann"}, {"text": DOCUMENT, "subject": "bob"}]

    assert tenant.embed(documents, epsilon=1.5).status_code == 200
    refused = tenant.embed([documents[0]], epsilon=1.5)
    assert refused.status_code == 403
    assert refused.json()["remaining"]["epsilon"] == 0.5
    assert tenant.embed([{"text": DOCUMENT}], subject="cy", epsilon=2).status_code == 200

    missing = tenant.embed(epsilon=1)
    assert missing.status_code == 422
    assert missing.json()["code"] == "subject-required"
    accounts = tenant.http.get("/budget").json()["accounts"]
    assert "ann" not in str(accounts)
    hashes = {account["subject_hash"] for account in accounts if "subject_hash" in account}
    assert len(hashes) == 3


def test_an_estimate_tells_the_price_and_charges_nothing(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=3)
    body = {"documents": [{"text": DOCUMENT}, {"text": DOCUMENT}], "epsilon": 1.0}
    estimate = tenant.http.post("/budget/estimate", json=body).json()
    assert estimate["allowed"] is True
    sentence = next(line for line in estimate["accounts"] if line["unit"] == "sentence")
    assert sentence["cost"]["epsilon"] == 2.0
    assert sentence["remaining_after"]["epsilon"] == 1.0
    refused = tenant.http.post("/budget/estimate", json=body | {"epsilon": 2.0}).json()
    assert refused["allowed"] is False
    assert tenant.committed() == 0.0
