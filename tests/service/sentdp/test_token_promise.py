"""Which releases promise something for a single token, and that the others say that they do not."""

from typing import Any

from gateway_kit import Tenant, good
from inprocess_kit import Gateway

# neighbours by one token whose segmentation differs in more than one sentence
TWO = "I saw Dr. Smith at noon. He was kind."
THREE = "I saw him. Smith at noon. He was kind."


def privacy(tenant: Tenant, *documents: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return good(tenant.embed(list(documents), **fields))["privacy"]


def test_raw_text_whose_number_of_sentences_one_token_changes_has_no_token_promise(tenant: Tenant) -> None:
    body = tenant.embed([{"text": TWO}, {"text": THREE}]).json()
    assert [row["sentences"] for row in body["data"]] == [2, 3], "one token tells them apart, at any epsilon"
    assert body["privacy"]["unit"] == "sentence"
    assert body["privacy"]["units"] == ["sentence"]
    assert body["privacy"]["public"] == ["number of sentences"]
    assert "no single token" in body["privacy"]["adjacency"]
    assert tenant.committed("token") == tenant.committed("sentence") == 2.0, "it is debited all the same"


def test_given_sentences_have_the_token_promise(tenant: Tenant) -> None:
    given = privacy(tenant, {"sentences": ["I saw Dr. Smith at noon.", "He was kind."]})
    assert given["unit"] == "sentence"
    assert given["units"] == ["sentence", "token"]
    assert given["public"] == ["number of sentences"]
    assert tenant.committed("token") == 1.0


def test_given_embeddings_promise_what_an_embedding_is(tenant: Tenant) -> None:
    vector = [1.0] + [0.0] * 383
    assert privacy(tenant, {"embeddings": [vector, vector]})["units"] == ["sentence"]


def test_a_call_promises_what_holds_for_each_of_its_documents(tenant: Tenant) -> None:
    mixed = privacy(tenant, {"sentences": ["One.", "Two."]}, {"text": TWO})
    assert mixed["units"] == ["sentence"]
    assert "sentences that were sent" in mixed["adjacency"]
    assert "sentences that the gateway finds" in mixed["adjacency"]


def test_a_vector_covers_a_token_where_it_stands_for_a_text(tenant: Tenant) -> None:
    forms = {"texts": ([TWO, THREE], ["vector", "sentence", "token"]), "vectors": ([[1.0, 0.0]], ["vector"])}
    for form, (content, units) in forms.items():
        answer = tenant.http.post("/embed/vector", json={form: content, "epsilon": 2.0})
        assert answer.status_code == 200, answer.text
        assert answer.json()["privacy"]["units"] == units
        assert answer.json()["privacy"]["public"] == [f"number of {form}"]


def test_an_openai_client_reads_the_same_promise(tenant: Tenant) -> None:
    body = {"model": "minilm-sentdp-eps10", "input": [TWO, THREE]}
    answer = tenant.http.post("/v1/embeddings", json=body).json()
    assert [row["sentences"] for row in answer["data"]] == [2, 3]
    assert answer["privacy"]["units"] == ["sentence"]
    assert answer["privacy"]["public"] == ["number of sentences"]


def test_an_estimate_names_the_promise_of_the_release(tenant: Tenant) -> None:
    for body in (
        {"documents": [{"text": TWO}], "epsilon": 1.0},
        {"documents": [{"sentences": [TWO]}], "epsilon": 1.0},
        {"documents": [{"text": TWO}], "epsilon": 1.0, "segmentation": "words"},
        {"documents": [{"text": TWO}], "epsilon": 1.0, "mechanism": "document_selection"},
    ):
        estimate = tenant.http.post("/budget/estimate", json=body).json()["privacy"]
        released = tenant.http.post("/embed/sentdp", json=body).json()["privacy"]
        for fact in ("unit", "units", "adjacency", "public", "mechanism", "epsilon"):
            assert estimate[fact] == released[fact]


def test_word_windows_promise_a_token_and_debit_the_token_account_alone(tenant: Tenant) -> None:
    answer = tenant.embed([{"text": TWO}, {"text": THREE}], segmentation="words", window_words=5, epsilon=2.0)

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert [row["windows"] for row in body["data"]] == [2, 2], "nothing but the vectors tells the neighbours apart"
    assert [set(row) for row in body["data"]] == [{"index", "embedding", "space", "windows"}] * 2
    assert body["usage"] == {"documents": 2, "windows": 4}
    del body["privacy"]["release_id"]
    assert body["privacy"] == {
        "guarantee": "pure-dp", "unit": "token", "units": ["token"],
        "adjacency": "replace one word of the text by any other string without white space",
        "public": ["number of words"], "epsilon": 2.0, "delta": 0.0, "mechanism": "sentence_codes_words",
        "window_words": 5,
    }  # fmt: skip
    assert body["budget"]["unit"] == "token"
    assert tenant.committed("token") == 4.0
    assert tenant.committed("sentence") == 0.0


def test_a_text_of_one_window_is_marked(tenant: Tenant) -> None:
    row = tenant.embed([{"text": "Alone."}], segmentation="words").json()["data"][0]
    assert (row["windows"], row["utility"]) == (1, "low")


def test_word_windows_are_of_text_alone(tenant: Tenant) -> None:
    refused = tenant.embed([{"text": TWO}, {"sentences": ["One."]}], segmentation="words")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "documents.1"
    assert tenant.committed("token") == 0.0


def test_the_token_account_bounds_sentences_and_windows_together(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=10, token={"epsilon": 3.0})
    assert tenant.embed(epsilon=2.0).status_code == 200
    refused = tenant.embed(epsilon=2.0, segmentation="words")
    assert (refused.status_code, refused.json()["account"]) == (403, f"{tenant.name}/token")
    assert tenant.embed(epsilon=1.0, segmentation="words").status_code == 200


def test_a_plan_of_sentences_admits_no_windows(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=10, plans={"sentence_codes": 0.5})
    refused = tenant.embed(epsilon=0.5, segmentation="words")
    assert (refused.status_code, refused.json()["code"]) == (403, "plan-mismatch")
