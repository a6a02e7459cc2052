"""Presidio's contracts over HTTP: what a client of its services sends and gets."""

from typing import Any

import httpx
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway

TEXT = "🙂 Maria Keller lives in Lisbon. Mail maria.keller@example.org, card 4111 1111 1111 1111, SSN 536-90-4399."
MEMBERS = {"analysis_explanation", "start", "end", "score", "entity_type"}


def analyzed(tenant: Tenant, text: Any = TEXT, **fields: Any) -> httpx.Response:
    return tenant.http.post("/analyze", json={"text": text, "language": "en"} | fields)


def values(answer: httpx.Response, text: str = TEXT) -> list[tuple[str, str]]:
    assert answer.status_code == 200, answer.text
    return [(each["entity_type"], text[each["start"] : each["end"]]) for each in answer.json()]


def test_finds_are_those_of_the_recognisers_at_code_points(tenant: Tenant) -> None:
    from presidio_analyzer import RecognizerResult as AnalyzerResult
    from presidio_anonymizer.entities import RecognizerResult

    answer = analyzed(tenant)
    assert values(answer) == [
        ("PERSON", "Maria Keller"), ("LOCATION", "Lisbon"), ("EMAIL_ADDRESS", "maria.keller@example.org"),
        ("CREDIT_CARD", "4111 1111 1111 1111"), ("US_SSN", "536-90-4399"),
    ]  # fmt: skip
    assert answer.headers["privacy-guarantee"] == "none"
    for each in answer.json():
        assert each.keys() == MEMBERS
        assert each["analysis_explanation"] is None
        assert AnalyzerResult.from_json(each).score == each["score"] <= 1
        assert RecognizerResult.from_json(each).start == each["start"]


def test_a_list_of_texts_has_a_list_of_finds_for_each(tenant: Tenant) -> None:
    answer = analyzed(tenant, [TEXT, "  ", "Nothing at all."]).json()
    assert [len(each) for each in answer] == [5, 0, 0]


def test_entities_and_the_threshold_choose(tenant: Tenant) -> None:
    assert values(analyzed(tenant, entities=["US_SSN", "LOCATION"])) == [
        ("LOCATION", "Lisbon"),
        ("US_SSN", "536-90-4399"),
    ]
    scores = [each["score"] for each in analyzed(tenant, score_threshold=0.9).json()]
    assert scores
    assert min(scores) >= 0.9
    bare = "The number is 536904399."
    assert analyzed(tenant, bare, entities=["US_SSN"]).json() == []
    assert values(analyzed(tenant, bare, entities=["US_SSN"], score_threshold=0), bare) == [("US_SSN", "536904399")]


def test_dates_are_found_unless_other_types_are_named(tenant: Tenant) -> None:
    text = "It began on 3 March 2021."
    assert values(analyzed(tenant, text), text) == [("DATE_TIME", "3 March 2021")]


def test_the_decision_process_is_explained_on_request(tenant: Tenant) -> None:
    (found,) = analyzed(tenant, "Mail a@example.org.", return_decision_process=True, entities=["EMAIL_ADDRESS"]).json()
    reason = found["analysis_explanation"]
    assert reason["recognizer"]
    assert reason["score"] == reason["original_score"] == found["score"]
    assert reason["pattern"] is None


def test_allow_lists_drop_equal_finds_and_matches(tenant: Tenant) -> None:
    kept = values(analyzed(tenant, allow_list=["Lisbon", "536", "maria"]))
    assert [kind for kind, _ in kept] == ["PERSON", "EMAIL_ADDRESS", "CREDIT_CARD", "US_SSN"]
    kept = values(analyzed(tenant, allow_list=["^lis", r"@example\.org$"], allow_list_match="regex"))
    assert [kind for kind, _ in kept] == ["PERSON", "CREDIT_CARD", "US_SSN"]


ZIP = {
    "name": "Zip code Recognizer",
    "supported_language": "en",
    "patterns": [{"name": "zip code (weak)", "regex": r"(\b\d{5}(?:\-\d{4})?\b)", "score": 0.01}],
    "context": ["zip", "code"],
    "supported_entity": "ZIP",
}


def test_recognisers_of_the_request_find(tenant: Tenant) -> None:
    text = "John Smith drivers license is AC432223 and the zip code is 12345"
    answer = analyzed(
        tenant, text, entities=["US_DRIVER_LICENSE", "ZIP"], ad_hoc_recognizers=[ZIP], return_decision_process=True,
        correlation_id="123e4567-e89b-12d3-a456-426614174000", trace=False, score_threshold=0.3,
    )  # fmt: skip
    assert values(answer, text) == [("US_DRIVER_LICENSE", "AC432223"), ("ZIP", "12345")]
    reason = answer.json()[1]["analysis_explanation"]
    assert reason["pattern_name"] == "zip code (weak)"
    assert (reason["original_score"], reason["score"]) == (0.01, 0.4)
    assert reason["recognizer"] == ZIP["name"]
    assert values(analyzed(tenant, text, ad_hoc_recognizers=[ZIP], entities=["ZIP"]), text) == [("ZIP", "12345")]
    assert analyzed(tenant, text, ad_hoc_recognizers=[ZIP], entities=["US_SSN"]).json() == []


def test_deny_lists_of_the_request_find(tenant: Tenant) -> None:
    own = {"supported_entity": "TITLE", "deny_list": ["Mr", "Zq 7"], "deny_list_score": 0.6}
    text = "MR Fox, zq 7; Mrs Fox"
    answer = analyzed(tenant, text, ad_hoc_recognizers=[own], entities=["TITLE"])
    assert values(answer, text) == [("TITLE", "MR"), ("TITLE", "zq 7")]
    assert {each["score"] for each in answer.json()} == {0.6}


def by_pattern(regex: str, *, times: int = 1) -> dict[str, Any]:
    return {"ad_hoc_recognizers": [ZIP | {"patterns": [{"name": "zq", "regex": regex, "score": 1}] * times}]}


def test_what_cannot_be_honoured_is_refused_by_name(tenant: Tenant) -> None:
    large = r"\pL{1,30}7"
    for fields, field in [
        ({"text": ""}, "text"),
        ({"language": "zq"}, "language"),
        ({"entities": ["NRP"]}, "entities"),
        ({"context": ["zq"]}, "context"),
        ({"regex_flags": 64, "allow_list": ["zq"], "allow_list_match": "regex"}, "regex_flags"),
        ({"allow_list": ["zq("], "allow_list_match": "regex"}, "allow_list.0"),
        (by_pattern("(?=zq)"), "ad_hoc_recognizers.0.patterns.0"),
        (by_pattern(large, times=16), "ad_hoc_recognizers.0.patterns.5"),
        ({"text": ["zq"] * 256} | by_pattern(large), "ad_hoc_recognizers"),
        ({"ad_hoc_recognizers": [{"supported_entity": "ZQ_1"}]}, "ad_hoc_recognizers.0.patterns"),
        ({"ad_hoc_recognizers": [ZIP | {"supported_entity": "zq"}]}, "ad_hoc_recognizers.0.supported_entity"),
        ({"ad_hoc_recognizers": [ZIP | {"global_regex_flags": 0}]}, "ad_hoc_recognizers.0.global_regex_flags"),
        ({"ad_hoc_recognizers": [ZIP] * 17}, "ad_hoc_recognizers"),
        ({"text": ["zq"] * 257}, "text"),
        (
            {"text": ["zq"] * 256, "ad_hoc_recognizers": [{"supported_entity": "ZIP", "deny_list": ["zq" * 100] * 90}]},
            "ad_hoc_recognizers",
        ),
        ({"text": "zq" * 50_001, "ad_hoc_recognizers": [ZIP]}, "text"),
    ]:
        refused = tenant.http.post("/analyze", json={"text": TEXT, "language": "en"} | fields)
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"][0]["field"] == field
        assert "zq" not in refused.text.casefold().replace(r"supported_entity", "")


def test_what_was_found_is_replaced(tenant: Tenant) -> None:
    body = {
        "text": TEXT,
        "analyzer_results": analyzed(tenant).json(),
        "anonymizers": {
            "PERSON": {"type": "redact"},
            "CREDIT_CARD": {"type": "mask", "masking_char": "*", "chars_to_mask": 12, "from_end": False},
            "US_SSN": {"type": "keep"},
            "DEFAULT": {"type": "replace"},
        },
    }
    answer = tenant.http.post("/anonymize", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["privacy-guarantee"] == "none"
    shown = answer.json()
    masked = "*" * 12 + "11 1111"
    assert shown["text"] == f"🙂  lives in <LOCATION>. Mail <EMAIL_ADDRESS>, card {masked}, SSN 536-90-4399."
    assert [each["operator"] for each in shown["items"]] == ["keep", "mask", "replace", "replace", "redact"]
    for each in shown["items"]:
        assert shown["text"][each["start"] : each["end"]] == each["text"]


def test_what_was_encrypted_comes_back(tenant: Tenant) -> None:
    key = {"key": "WmZq4t7w!z%C&F)J"}
    texts = [TEXT, "No find."]
    found = analyzed(tenant, texts).json()
    sealed = tenant.http.post(
        "/anonymize",
        json={"text": texts, "analyzer_results": found, "anonymizers": {"DEFAULT": {"type": "encrypt"} | key}},
    ).json()
    assert "Maria" not in sealed[0]["text"]
    opened = tenant.http.post(
        "/deanonymize",
        json={
            "text": [each["text"] for each in sealed],
            "anonymizer_results": [each["items"] for each in sealed],
            "deanonymizers": {"DEFAULT": {"type": "decrypt"} | key},
        },
    )
    assert [each["text"] for each in opened.json()] == texts
    assert {each["operator"] for each in opened.json()[0]["items"]} == {"decrypt"}


def test_what_cannot_be_replaced_is_refused(tenant: Tenant) -> None:
    place = {"start": 0, "end": 2, "entity_type": "PERSON"}
    longer = {"A": {"type": "replace", "new_value": "a" * 1_000}}
    letters = [{"start": at, "end": at + 1, "score": 1, "entity_type": "A"} for at in range(0, 5_000, 2)]
    sealed = {"DEFAULT": {"type": "decrypt", "key": "0123456789abcdef"}}
    for path, fields in [
        ("/anonymize", {"analyzer_results": [{"start": 0, "end": 99, "score": 1, "entity_type": "PERSON"}]}),
        ("/anonymize", {"analyzer_results": [{"start": 3, "end": 2, "score": 1, "entity_type": "PERSON"}]}),
        ("/anonymize", {"analyzer_results": [{"start": 0, "end": 2, "entity_type": "PERSON"}]}),
        ("/anonymize", {"analyzer_results": [[]]}),
        ("/anonymize", {"analyzer_results": [], "text": ["zq"]}),
        ("/anonymize", {"analyzer_results": [{"start": 0, "end": 1, "score": 1, "entity_type": "A"}], "text": ["zq"]}),
        ("/anonymize", {"text": ["zq" * 2_500] * 2, "anonymizers": longer, "analyzer_results": [letters] * 2}),
        ("/anonymize", {}),
        ("/anonymize", {"analyzer_results": [], "anonymizers": {"DEFAULT": {"type": "custom"}}}),
        ("/anonymize", {"analyzer_results": [], "anonymizers": {"DEFAULT": {"type": "mask", "masking_char": "*"}}}),
        ("/anonymize", {"analyzer_results": [], "anonymizers": {"DEFAULT": {"type": "hash", "salt": "zq"}}}),
        ("/anonymize", {"analyzer_results": [], "anonymizers": {"DEFAULT": {"type": "encrypt", "key": "zq"}}}),
        ("/deanonymize", {"anonymizer_results": [place], "deanonymizers": {"LOCATION": {"type": "deanonymize_keep"}}}),
        ("/deanonymize", {"anonymizer_results": [place], "deanonymizers": sealed}),
    ]:
        refused = tenant.http.post(path, json={"text": "zq zq"} | fields)
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"]
        assert "zq" not in refused.text


def test_the_catalogue(tenant: Tenant) -> None:
    in_any = tenant.http.get("/supportedentities").json()
    assert {"PERSON", "LOCATION", "EMAIL_ADDRESS", "US_SSN", "IBAN_CODE", "DATE_TIME"} <= set(in_any)
    in_german = tenant.http.get("/supportedentities", params={"language": "de"}).json()
    assert set(in_german) < set(in_any)
    assert tenant.http.get("/supportedentities", params={"language": "zq"}).status_code == 422
    assert {"tagger", "email_address"} <= set(tenant.http.get("/recognizers", params={"language": "en"}).json())
    assert tenant.http.get("/anonymizers").json() == ["encrypt", "hash", "keep", "mask", "redact", "replace"]
    assert tenant.http.get("/deanonymizers").json() == ["decrypt", "deanonymize_keep"]


def test_the_key_may_be_the_password_of_an_address(gateway: Gateway, tenant: Tenant) -> None:
    body = {"text": TEXT, "language": "en"}
    for path in ("/analyze", "/anonymize", "/deanonymize"):
        assert gateway.anyone.post(path, json=body).status_code == 401
    assert gateway.anyone.post("/analyze", json=body, auth=("key", tenant.key)).status_code == 200
    assert gateway.anyone.post("/analyze", json=body, auth=("key", "pgw_wrong")).status_code == 401
    for wrong in ("Basic", "Basic é", "Basic Og==", "Basic zq"):
        headers = {"Authorization": wrong.encode("latin-1")}
        assert gateway.anyone.post("/analyze", json=body, headers=headers).status_code == 401
    assert gateway.anyone.post("/sanitize", json={}, auth=("key", tenant.key)).status_code == 401


POLICY = """
[policies]
strict = { tenants = ["bound"], default_for = ["bound"], enforced = true, mask = { entities = ["US_SSN"] } }
private = { tenants = ["private"], default_for = ["private"], enforced = true, fill = { mode = "dp", epsilon = 4.0 } }
words = { default_for = ["private-by-choice"], fill = { mode = "metric_dp", epsilon = 2.5 } }
"""


policed = module_gateway({}, policies=POLICY)


def test_a_policy_with_a_price_shows_no_finds(policed: Gateway) -> None:
    for name in ("private", "private-by-choice"):
        tenant = policed.tenant(name)
        refused = analyzed(tenant)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
    assert values(analyzed(tenant, entities=["US_SSN"])) == [("US_SSN", "536-90-4399")]


def test_an_enforced_policy_decides(policed: Gateway) -> None:
    bound = policed.tenant("bound")
    assert values(analyzed(bound)) == [("US_SSN", "536-90-4399")]
    for fields in ({"entities": ["PERSON"]}, {"score_threshold": 0.1}, {"allow_list": ["x"]},
                   {"ad_hoc_recognizers": [ZIP]}):  # fmt: skip
        assert analyzed(bound, **fields).json()["code"] == "policy-enforced"
    refused = bound.http.post("/anonymize", json={"text": TEXT, "analyzer_results": []})
    assert refused.json()["code"] == "policy-enforced"
