"""`POST /sanitize`: the planted strings are removed, and the answer promises nothing more."""

import pytest
from gateway_kit import Gateway, Tenant

PLANTED = {
    "EMAIL_ADDRESS": "jane.roe@acme-corp.com",
    "PHONE_NUMBER": "+44 20 7946 0958",
    "CREDIT_CARD": "4111 1111 1111 1111",
    "IBAN_CODE": "DE89 3704 0044 0532 0130 00",
}
TEXT = (
    "Mail jane.roe@acme-corp.com or call +44 20 7946 0958. Card 4111 1111 1111 1111, "
    "IBAN DE89 3704 0044 0532 0130 00. Again: jane.roe@acme-corp.com."
)


@pytest.mark.parametrize("fill", ["marker", "class_marker", "surrogate"])
def test_everything_planted_is_removed_and_no_guarantee_is_claimed(tenant: Tenant, fill: str) -> None:
    answer = tenant.http.post(
        "/sanitize", json={"documents": [{"id": "a", "text": TEXT}], "fill": {"mode": fill}, "return_spans": True}
    )

    assert answer.status_code == 200, answer.text
    body = answer.json()
    for value in PLANTED.values():
        assert value not in answer.text
    (row,) = body["data"]
    assert body["privacy"]["guarantee"] == "none"
    assert body["budget"] is None
    assert {span["type"] for span in row["spans"]} >= set(PLANTED)  # the tagger may take a word beside for a name
    assert row["masked_tokens"] > 0
    if fill == "class_marker":
        for span in row["spans"]:
            assert row["text"][span["start"] : span["end"]] == f"[{span['type']}]"
    if fill == "surrogate":
        fakes = [row["text"][s["start"] : s["end"]] for s in row["spans"] if s["type"] == "EMAIL_ADDRESS"]
        assert len(fakes) == 2
        assert fakes[0] == fakes[1], "the same original has the same surrogate inside a document"
    assert tenant.committed() == 0.0


def test_surrogates_are_those_of_the_document_or_of_the_tenant(gateway: Gateway, tenant: Tenant) -> None:
    def emails(owner: Tenant, **fill: str) -> list[str]:
        body = {
            "documents": [{"text": f"Write to jane.roe@acme-corp.com {word}."} for word in ("now", "again")],
            "mask": {"techniques": ["entity"], "entities": ["EMAIL_ADDRESS"]},
            "fill": {"mode": "surrogate", **fill},
        }
        answer = owner.http.post("/sanitize", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["privacy"]["guarantee"] == "none"
        return [row["text"].split()[2] for row in answer.json()["data"]]

    first, second = emails(tenant)
    assert first != second
    own = emails(tenant, consistency="tenant") + emails(tenant, consistency="tenant")
    assert len(set(own)) == 1
    assert emails(gateway.tenant(), consistency="tenant")[0] != own[0], "another tenant has another key"
    assert own[0] not in emails(tenant, consistency="document")


def test_a_consistency_is_of_surrogates_alone(tenant: Tenant) -> None:
    for fill in ({"mode": "class_marker", "consistency": "tenant"}, {"mode": "surrogate", "consistency": "global"}):
        answer = tenant.http.post("/sanitize", json={"documents": [{"text": TEXT}], "fill": fill})
        assert answer.status_code == 422
        assert "fill.consistency" in answer.text
        assert "jane" not in answer.text


def test_a_replay_is_computed_again_and_never_stored(tenant: Tenant) -> None:
    headers = {"Idempotency-Key": "again"}
    body = {"documents": [{"text": TEXT}], "fill": {"mode": "class_marker"}}
    first = tenant.http.post("/sanitize", json=body, headers=headers)
    again = tenant.http.post("/sanitize", json=body, headers=headers)
    assert first.json()["data"] == again.json()["data"]
    assert again.headers["idempotency-replayed"] == "false"


def test_what_is_not_supported_is_refused_and_never_skipped(tenant: Tenant) -> None:
    for fields in [
        {"mask": {"techniques": []}}, {"mask": {"techniques": ["guess"]}},
        {"mask": {"techniques": ["entity"], "entities": ["SHOE_SIZE"]}},
        {"mask": {"techniques": ["allow_list"], "allow_list": "no-such-list"}},
        {"mask": {"techniques": ["vocabulary"], "vocabulary_size": 1}}, {"fill": {"mode": "guess"}},
        {"documents": [{"text": "  "}]}, {"documents": []},
    ]:  # fmt: skip
        answer = tenant.http.post("/sanitize", json={"documents": [{"text": TEXT}]} | fields)
        assert answer.status_code == 422
        assert "jane" not in answer.text


def test_a_profile_masks_its_entities_and_those_that_the_request_adds(tenant: Tenant) -> None:
    document = {"text": "password: hunter2 by jane.roe@acme-corp.com, aged 93"}
    catalogue = tenant.http.get("/entities").json()
    assert set(PLANTED) <= {entity["name"] for entity in catalogue["entities"]}
    assert catalogue["profiles"]["secrets"] == ["SECRET", "PASSWORD"]

    def masked(**mask: object) -> str:
        answer = tenant.http.post("/sanitize", json={"documents": [document], "mask": mask})
        return str(answer.json()["data"][0]["text"])

    assert masked(profile="secrets") == "password: [PASSWORD] by jane.roe@acme-corp.com, aged 93"
    assert masked(profile="secrets", entities=["AGE"]) == "password: [PASSWORD] by jane.roe@acme-corp.com, aged [AGE]"


def test_an_unknown_profile_is_answered_by_those_that_exist(tenant: Tenant) -> None:
    answer = tenant.http.post("/sanitize", json={"documents": [{"text": TEXT}], "mask": {"profile": "zworykling"}})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "mask.profile"
    assert "default, hipaa, gdpr, pci, secrets" in answer.json()["errors"][0]["message"]
    assert "zworykling" not in answer.text
