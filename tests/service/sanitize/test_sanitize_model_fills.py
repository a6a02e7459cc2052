"""`POST /sanitize` with the fills of a language model: what they say, what they cost, what they refuse."""

from typing import Any

import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway

TEXT = "Dr Zworykin of Xylotron met the buyers on Monday, room 4711."
MASK = {"techniques": ["vocabulary", "entity"], "vocabulary_size": 5000}
HIDDEN = ("Zworykin", "Xylotron", "4711")


def sanitize(tenant: Tenant, documents: list[dict[str, Any]] | None = None, **fields: Any) -> Any:
    body = {"documents": documents or [{"text": TEXT}], "mask": MASK} | fields
    body = {name: value for name, value in body.items() if value is not None}
    return tenant.http.post("/sanitize", json=body)


def dp(epsilon: float = 8.0, **fields: Any) -> dict[str, Any]:
    return {"mode": "dp", "epsilon": epsilon} | fields


@pytest.fixture(scope="module")
def infill(gateway: Gateway) -> dict[str, Any]:
    models = gateway.tenant().http.get("/models").json()["models"]
    return next(model["infill"] for model in models if model["role"] == "fill")


@pytest.mark.parametrize("fill", [{"mode": "top1"}, {"mode": "topk", "k": 3}])
def test_a_model_fills_what_was_masked_and_promises_nothing(tenant: Tenant, fill: dict[str, Any]) -> None:
    documents = [{"id": "a", "text": TEXT}, {"text": "nothing here"}, {"text": "She paid 4711 for the Zworykin."}]
    answer = sanitize(tenant, documents, fill=fill, return_spans=True)

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["privacy"]["guarantee"] == "none"
    assert "may guess" in body["privacy"]["note"]
    assert body["budget"] is None
    assert not any(word in answer.text for word in HIDDEN)
    first, second, third = body["data"]
    assert first["text"].startswith("Dr ")
    assert ", room " in first["text"]
    fills = [(first["text"][span["start"] : span["end"]], span["type"]) for span in first["spans"]]
    assert all(fill.isdecimal() if kind == "NUMBER" else fill.isalpha() for fill, kind in fills)
    number, word = (third["text"][span["start"] : span["end"]] for span in third["spans"])
    assert third["text"] == f"She paid {number} for the {word}."
    assert number.isdecimal()
    assert word.isalpha()
    assert first["masked_tokens"] >= len(HIDDEN)
    assert second["text"] == "nothing here"
    assert tenant.committed("token") == 0.0


def test_a_text_without_words_costs_its_epsilon_and_leaves_empty(tenant: Tenant) -> None:
    documents = [{"text": text} for text in ("\U0001f642\U0001f642", "\u2014 ...", "\u200b")]
    answer = sanitize(tenant, documents, mask=None, fill=dp(scope="document"))
    assert answer.status_code == 200, answer.text
    assert [row["text"] for row in answer.json()["data"]] == ["", "", ""]
    assert tenant.committed("token") == 3 * 8.0


def test_top1_does_not_depend_on_what_was_masked(tenant: Tenant) -> None:
    other = TEXT.replace("Zworykin", "Grubenhagen").replace("Xylotron", "Quuxmeister")
    one, two = (sanitize(tenant, [{"text": text}], fill={"mode": "top1"}).json()["data"][0] for text in (TEXT, other))
    assert one["text"] == two["text"]


def test_dp_of_slots_says_what_it_protects_and_tells_no_counts(tenant: Tenant, infill: dict[str, Any]) -> None:
    answer = sanitize(tenant, [{"id": "a", "text": TEXT}, {"text": "nothing"}], fill=dp(), return_spans=True)

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["privacy"].pop("release_id")
    assert body["privacy"] == {
        "guarantee": "pure-dp",
        "unit": "token",
        "adjacency": "replace what stands in one masked place by anything else, given the mask pattern and the kept "
        "text; the kept text and which places are masked have no protection",
        "epsilon": 8.0,
        "delta": 0.0,
        "mechanism": "dp_fill_slot",
        "candidates": infill["candidates"],
        "candidates_fingerprint": infill["candidates_fingerprint"],
    }
    assert infill["candidates"] > 10_000
    assert body["usage"] == {"documents": 2}
    first, second = body["data"]
    assert set(first) == {"index", "id", "text", "spans"}
    assert {(span["type"], span["technique"]) for span in first["spans"]} == {("WORD", "vocabulary+entity")}
    assert not any(word in first["text"] for word in HIDDEN)  # a random identifier may hold four digits of one
    assert second["text"] == "nothing"
    assert tenant.committed("token") == 16.0
    assert tenant.committed("sentence") == tenant.committed("vector") == 0.0
    assert "server-timing" not in answer.headers


def test_at_a_large_epsilon_words_stay_and_by_all_each_is_a_place(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1e4)
    body = sanitize(
        tenant, [{"text": "We met the Buyers, on Monday!"}], mask={"techniques": ["all"]}, fill=dp(200.0)
    ).json()
    assert body["data"][0]["text"] == "we met the buyers on monday"
    assert "any other that leaves the number of words as it is" in body["privacy"]["adjacency"]


def test_dp_of_a_document_costs_its_total_and_tells_no_spans(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1e4)
    answer = sanitize(tenant, [{"text": "We met the Buyers!"}], mask=None, fill=dp(400.0, scope="document"))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["data"] == [{"index": 0, "text": "we met the buyers"}]
    assert body["privacy"]["unit"] == "document"
    assert body["privacy"]["mechanism"] == "dp_fill_document"
    assert "as many words" in body["privacy"]["adjacency"]
    assert tenant.committed("token") == 400.0


def test_what_makes_no_sense_or_is_too_much_is_refused_and_costs_nothing(tenant: Tenant) -> None:
    for fields in [
        {"fill": {"mode": "dp"}}, {"fill": dp(0)}, {"fill": dp(1e9)}, {"fill": dp(k=3)},
        {"fill": dp(mechanism="exponential")}, {"fill": dp(scope="sentence")}, {"fill": dp(scope="document")},
        {"fill": dp(scope="document"), "mask": {"techniques": ["all", "entity"]}},
        {"fill": dp(scope="document"), "mask": None, "return_spans": True},
        {"fill": {"mode": "top1", "epsilon": 1.0}}, {"fill": {"mode": "top1", "k": 3}},
        {"fill": {"mode": "topk", "k": 0}}, {"fill": {"mode": "topk", "k": 101}},
        {"fill": {"mode": "topk", "scope": "slot"}}, {"fill": {"mode": "marker", "k": 3}},
        {"fill": dp(), "mask": {"techniques": ["all"]}, "documents": [{"text": "Zworykin and " * 600}] * 2},
        {"fill": dp(), "documents": [{"text": "Zworykin and " * 1_100}]},
        {"fill": {"mode": "topk"}, "documents": [{"text": "Zworykin and " * 2_100}]},
    ]:  # fmt: skip
        answer = sanitize(tenant, **fields)

        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] == "invalid-input"
        assert "Zworykin" not in answer.text
        assert tenant.committed("token") == 0.0


without_a_model = module_gateway({}, INFILL="off")


def test_without_a_model_its_fills_are_refused_before_anything_is_charged(without_a_model: Gateway) -> None:
    tenant = without_a_model.tenant()
    for fill in ({"mode": "top1"}, {"mode": "topk"}, dp(), dp(scope="document")):
        answer = sanitize(tenant, fill=fill, mask={"techniques": ["all"]})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "fill.mode"
    estimate = tenant.http.post("/budget/estimate", json={"documents": [{"text": TEXT}], "fill": dp()})
    assert estimate.status_code == 422
    job = tenant.http.post("/jobs/infill", json={"name": "own", "documents": [{"text": TEXT}] * 20})
    assert (job.status_code, "cannot be fine-tuned" in job.text) == (422, True)
    assert tenant.committed("token") == 0.0
    assert sanitize(tenant, fill={"mode": "marker"}).status_code == 200
    fills = next(m["fills"] for m in tenant.http.get("/models").json()["models"] if m["role"] == "sanitize")
    assert not {"top1", "topk", "dp"} & set(fills)
