"""`POST /sanitize` with the fill `metric_dp`: what it says, what it costs, and that no unknown word gets through."""

from typing import Any

from gateway_kit import Tenant
from inprocess_kit import Gateway

TEXT = "Dr Zworykin of Xylotron met the buyers on Monday, room 4711."
UNKNOWN = ("zworykin", "xylotron", "4711")
FILL = {"mode": "metric_dp", "epsilon": 2.5}
WORST = 4.999395135  # 2.5 + ln((1 + 19999 e^2.5) / (e^2.5 + 19999)), rounded up


def sanitize(tenant: Tenant, documents: list[dict[str, Any]] | None = None, **fields: Any) -> Any:
    headers = fields.pop("headers", {})
    body = {"documents": documents or [{"text": TEXT}], "mask": {"techniques": ["all"]}, "fill": FILL} | fields
    return tenant.http.post("/sanitize", json=body, headers=headers)


def unknown_in(answer: Any) -> list[str]:
    """The unknown words in the texts of an answer; a random identifier may hold four digits of one."""
    shown = "\n".join(row["text"] for row in answer.json()["data"]).lower()
    return [word for word in UNKNOWN if word in shown]


def test_the_answer_names_unit_condition_and_worst_case_and_each_document_costs_once(tenant: Tenant) -> None:
    answer = sanitize(tenant, [{"id": "a", "text": TEXT}, {"text": "short"}], return_spans=True)

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["privacy"].pop("release_id")
    assert body["privacy"] == {
        "guarantee": "metric-dp",
        "unit": "token",
        "adjacency": "replace one word of the text by any string that leaves the number of words as it is; that number "
        "is public",
        "epsilon": 2.5,
        "delta": 0.0,
        "mechanism": "metric_dp_exponential",
        "per": "unit of Euclidean distance between word vectors",
        "epsilon_worst_case": WORST,
    }
    assert body["budget"]["unit"] == "vector"
    assert tenant.committed("vector") == 5.0
    assert tenant.committed("token") == 2 * WORST
    assert tenant.committed("sentence") == 0.0
    first, second = body["data"]
    assert first["id"] == "a"
    assert first["tokens"] == first["masked_tokens"] == len(first["text"].split()) == 11
    assert first["spans"] == [{"start": 0, "end": len(first["text"]), "type": "WORD", "technique": "all"}]
    assert second["tokens"] == 1
    assert "server-timing" not in answer.headers


def test_the_papers_form_is_used_on_request_and_answers_name_it(tenant: Tenant) -> None:
    fill = FILL | {"mechanism": "laplace"}
    answer = sanitize(tenant, [{"text": TEXT}, {"text": "short"}], fill=fill)
    assert answer.status_code == 200, answer.text
    assert answer.json()["privacy"]["mechanism"] == "metric_dp_laplace"
    assert answer.json()["privacy"]["epsilon_worst_case"] == 5.0
    assert tenant.committed("token") == 10.0
    assert not unknown_in(answer)


def test_no_unknown_word_comes_out_of_many_draws(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1e6)
    for fields in ({}, {"mask": {"techniques": ["vocabulary", "entity"], "vocabulary_size": 5000}}):
        answer = sanitize(tenant, [{"text": TEXT}] * 200, fill={"mode": "metric_dp", "epsilon": 100.0}, **fields)
        assert answer.status_code == 200, answer.text
        assert not unknown_in(answer)


def test_with_masks_the_answer_says_what_is_not_protected(tenant: Tenant) -> None:
    mask = {"techniques": ["vocabulary"], "vocabulary_size": 5000}
    body = sanitize(tenant, mask=mask, return_spans=True).json()
    (row,) = body["data"]
    assert row["text"].startswith("Dr ")
    assert ", room " in row["text"]
    assert "given the mask pattern and the kept text" in body["privacy"]["adjacency"]
    assert {(span["type"], span["technique"]) for span in row["spans"]} == {("WORD", "vocabulary")}
    assert tenant.committed("token") == WORST


def test_an_epsilon_that_is_missing_wrong_or_idle_is_refused(tenant: Tenant) -> None:
    for fill in [
        {"mode": "metric_dp"}, {"mode": "metric_dp", "epsilon": None}, {"mode": "metric_dp", "epsilon": 0},
        {"mode": "metric_dp", "epsilon": -1.0}, {"mode": "metric_dp", "epsilon": 1e9},
        {"mode": "metric_dp", "epsilon": "1"}, {"mode": "class_marker", "epsilon": 1.0},
        {"mode": "surrogate", "epsilon": 1.0}, {"epsilon": 1.0},
        {"mode": "metric_dp", "epsilon": 1.0, "mechanism": "gaussian"},
        {"mode": "class_marker", "mechanism": "exponential"}, {"mode": "surrogate", "mechanism": "laplace"},
        {"mechanism": "exponential"},
    ]:  # fmt: skip
        answer = sanitize(tenant, fill=fill)
        assert answer.status_code == 422
        assert "Zworykin" not in answer.text
        assert tenant.committed("vector") == tenant.committed("token") == 0.0


def test_an_estimate_tells_the_price_and_charges_nothing(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=9.0)
    body = {"documents": [{"text": TEXT}] * 2, "mask": {"techniques": ["all"]}, "fill": FILL}

    estimate = tenant.http.post("/budget/estimate", json=body).json()

    assert estimate["privacy"]["epsilon_worst_case"] == WORST
    assert {line["unit"]: line["cost"]["epsilon"] for line in estimate["accounts"]} == {
        "vector": 5.0,
        "token": 2 * WORST,
    }
    assert {line["unit"]: line["allowed"] for line in estimate["accounts"]} == {"vector": True, "token": False}
    assert estimate["allowed"] is False
    assert tenant.committed("vector") == 0.0
    free = tenant.http.post("/budget/estimate", json=body | {"fill": {"mode": "marker"}})
    assert free.status_code == 422
