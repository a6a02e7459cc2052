"""`POST /sanitize`: the language of each document, what explains a find, and dry runs."""

import json
from typing import Any

from gateway_kit import Tenant

GERMAN = "Bitte rufen Sie mich morgen früh zurück: jane.roe@acme-corp.com."
SWEDISH = "Fakturan är fortfarande obetald, kan du kontrollera det? jane.roe@acme-corp.com"
CARD = "4111 1111 1111 1111"
EMAILS = {"entities": ["EMAIL_ADDRESS"]}
REFUSING = {"unknown_language": "refuse"}
METRIC_DP = {"mode": "metric_dp", "epsilon": 5.0}


def sanitize(tenant: Tenant, *texts: str, **fields: Any) -> Any:
    return tenant.http.post("/sanitize", json={"documents": [{"text": text} for text in texts]} | fields)


def batch(tenant: Tenant, *lines: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    *rows, last = map(json.loads, tenant.sanitize_lines(*lines).text.splitlines())
    return rows, last["summary"]


# ---------------------------------------------------------------- language


def test_each_row_has_the_language_of_its_document(tenant: Tenant) -> None:
    texts = ("Please call me back tomorrow: jane.roe@acme-corp.com.", GERMAN, SWEDISH, "Anna, 12:30?", "4711")
    rows = sanitize(tenant, *texts, mask=EMAILS).json()["data"]
    assert [row["language"] for row in rows] == ["en", "de", "unknown", "unknown", "unknown"]
    assert ["note" in row for row in rows] == [False, False, True, True, True]
    assert all("jane.roe" not in row["text"] for row in rows)


def test_a_named_language_is_not_guessed(tenant: Tenant) -> None:
    for language in ("en", "pl"):
        (row,) = sanitize(tenant, SWEDISH, mask={"language": language} | REFUSING).json()["data"]
        assert row["language"] == language
        assert "[EMAIL_ADDRESS]" in row["text"]


def test_names_are_offered_in_every_language(tenant: Tenant) -> None:
    languages = ["en", "de", "es", "fr", "it", "nl", "pl", "pt"]
    catalogue = {row["name"]: row["languages"] for row in tenant.http.get("/entities").json()["entities"]}
    assert catalogue["PERSON"] == catalogue["EMAIL_ADDRESS"] == languages
    assert catalogue["US_PASSPORT"] == ["en"]
    for language in languages:
        (row,) = sanitize(tenant, GERMAN, mask={"language": language}).json()["data"]
        assert "[EMAIL_ADDRESS]" in row["text"]


def test_a_document_in_another_language_is_refused_by_its_index(tenant: Tenant) -> None:
    refused = sanitize(tenant, GERMAN, "Anna, 12:30?", SWEDISH, mask=REFUSING)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["field"] == "documents.2.text"
    assert "en, de, es, fr, it, nl, pl, pt" in error["message"]
    assert "Fakturan" not in refused.text
    assert "jane" not in refused.text
    assert tenant.committed() == 0.0


def test_in_a_stream_it_is_refused_alone(tenant: Tenant) -> None:
    documents = [{"id": name, "text": text} for name, text in (("a", GERMAN), ("b", SWEDISH), ("c", GERMAN))]
    rows, summary = batch(tenant, {"mask": EMAILS | REFUSING}, *documents)
    assert [row.get("language") for row in rows] == ["de", None, "de"]
    assert rows[1]["problem"]["status"] == 422
    assert rows[1]["problem"]["errors"][0]["field"] == "text"
    assert (summary["released"], summary["failed"], summary["complete"]) == (2, 1, True)


def test_of_a_fill_with_a_price_no_language_is_guessed(tenant: Tenant) -> None:
    (row,) = sanitize(tenant, SWEDISH, mask=EMAILS, fill=METRIC_DP).json()["data"]
    assert "language" not in row
    assert "note" not in row
    before = tenant.committed("token")
    refused = sanitize(tenant, SWEDISH, mask=EMAILS | REFUSING, fill=METRIC_DP)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "mask.unknown_language"
    assert tenant.committed("token") == before
    named = sanitize(tenant, SWEDISH, mask=EMAILS | REFUSING | {"language": "en"}, fill=METRIC_DP)
    assert named.status_code == 200, named.text


# ---------------------------------------------------------------- explain


def test_each_find_is_reported_with_its_origin(tenant: Tenant) -> None:
    text = f"Card 4111\u200b1111 1111 1111, mail jane.roe@acme-corp.com, order A12345678, card {CARD}."
    mask = {"entities": ["CREDIT_CARD", "EMAIL_ADDRESS", "US_PASSPORT"]}
    (row,) = sanitize(tenant, text, mask=mask, return_spans=True).json()["data"]

    shown = [text[span["original_start"] : span["original_end"]] for span in row["spans"]]
    assert shown == ["4111\u200b1111 1111 1111", "jane.roe@acme-corp.com", CARD]
    for span in row["spans"]:
        assert row["text"][span["start"] : span["end"]] == f"[{span['type']}]"
        assert span["technique"] == "entity"
        assert span["recogniser"] == span["type"].lower()
        assert 0.4 <= span["score"] <= 1
    passport = [find for find in row["suppressed"] if find["type"] == "US_PASSPORT"]
    assert [(text[find["original_start"] : find["original_end"]], find["rule"]) for find in passport] == [
        ("A12345678", "no_context")
    ]
    assert row["suppressed_left_out"] == 0
    assert CARD not in json.dumps(row)


def test_without_spans_nothing_is_explained(tenant: Tenant) -> None:
    (row,) = sanitize(tenant, f"Card {CARD}.").json()["data"]
    assert not {"spans", "suppressed", "suppressed_left_out"} & row.keys()


def test_a_fill_with_a_price_shows_no_more_of_its_finds_than_its_output(tenant: Tenant) -> None:
    (row,) = sanitize(tenant, GERMAN, mask=EMAILS, fill=METRIC_DP, return_spans=True).json()["data"]
    assert "suppressed" not in row
    assert [span.keys() for span in row["spans"]] == [{"start", "end", "type", "technique"}]


# ---------------------------------------------------------------- dry run


def test_a_dry_run_has_the_finds_and_no_text(tenant: Tenant) -> None:
    text = f"Bitte an jane.roe@acme-corp.com schreiben, Karte {CARD}."
    mask = {"entities": ["EMAIL_ADDRESS", "CREDIT_CARD"]}
    body = sanitize(tenant, text, mask=mask, fill={"mode": "surrogate"}, dry_run=True).json()
    (row,) = body["data"]

    assert body["dry_run"] is True
    assert body["privacy"]["guarantee"] == "none"
    assert body["budget"] is None
    assert "text" not in row
    assert row["language"] == "de"
    assert [(span["type"], text[span["original_start"] : span["original_end"]]) for span in row["spans"]] == [
        ("EMAIL_ADDRESS", "jane.roe@acme-corp.com"),
        ("CREDIT_CARD", CARD),
    ]
    assert all(not {"start", "end"} & span.keys() for span in row["spans"])
    assert isinstance(row["suppressed"], list)
    assert "jane.roe" not in json.dumps(body)


def test_a_fill_with_a_price_has_no_dry_run(tenant: Tenant) -> None:
    refused = sanitize(tenant, GERMAN, fill=METRIC_DP, dry_run=True)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "dry_run"
    assert tenant.committed("token") == 0.0


def test_a_stream_may_be_a_dry_run(tenant: Tenant) -> None:
    rows, summary = batch(tenant, {"mask": EMAILS, "dry_run": True}, {"id": "a", "text": GERMAN}, {"text": "none"})
    assert [[span["type"] for span in row["spans"]] for row in rows] == [["EMAIL_ADDRESS"], []]
    assert all("text" not in row for row in rows)
    assert summary["dry_run"] is True
    assert summary["released"] == 2
