"""`POST /jobs/evaluation` of a running gateway: a report of own texts, without a charge, and what it refuses."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from corpus_kit import until
from gateway_kit import Gateway

pytestmark = pytest.mark.usefixtures("processes")
DICE = random.Random(3)
TOPICS = {
    "boats": "boat sail harbour mast anchor deck wave tide rope captain",
    "bread": "bread flour oven dough yeast crust baker salt butter loaf",
}
SECRET = "quagliarella"  # a value that must be in no file


def rows(count: int) -> list[dict[str, str]]:
    found = []
    for number in range(count):
        label = ("boats", "bread")[number % 2]
        words = [" ".join(DICE.choices(TOPICS[label].split(), k=6)) for _ in range(3)]
        text = ". ".join(words) + f". My mother is a nurse, write to {SECRET}{number}@example.org."
        found.append({"text": text, "label": label, "person": f"person {number // 4}"})
    return found


METHODS = [
    {"name": "codes", "endpoint": "embed/sentdp", "body": {"mechanism": "sentence_codes"}},
    {"name": "laplace & co", "endpoint": "embed/vector", "body": {"mechanism": "laplace"}},
    {"name": "e-mail", "endpoint": "sanitize", "body": {"mask": {"entities": ["EMAIL_ADDRESS"]}}},
]


def method(endpoint: str, **body: Any) -> dict[str, Any]:
    return {"name": "x", "endpoint": endpoint, "body": body}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    environment = {"PRIVACY_GATEWAY_JOB_PRIORITY": "normal", "PRIVACY_GATEWAY_INFILL": "off"}
    started = Gateway(tmp_path_factory.mktemp("evaluation") / "data", environment)
    yield started
    started.stop()


def test_an_evaluation_has_a_report_findings_and_advice_and_costs_nothing(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1)
    content = "".join(json.dumps(row) + "\n" for row in rows(200))
    fields = {"name": "own", "methods": json.dumps(METHODS), "epsilons": "[3, 25]", "repetitions": 2, "releases": 4}
    headers = {"Content-Type": "application/x-ndjson"}
    created = tenant.http.post("/jobs/evaluation", params=fields, content=content, headers=headers)
    assert created.status_code == 202, created.text
    job = until(tenant.http, created.json()["job_id"])
    assert job["status"] == "succeeded", job
    assert (job["reserved"]["epsilon"], job["spent"]["epsilon"], tenant.committed("sentence")) == (0, 0, 0)
    assert job["result"] == {
        "name": "own", "texts": 200, "labels": 2, "persons": 50, "methods": 3, "guarantee": "none",
    }  # fmt: skip
    path = f"/jobs/{job['job_id']}"
    found = tenant.http.get(f"{path}/artifact").json()
    codes, laplace = found["utilities"]
    assert codes["rows"][0]["accuracy"]["mean"] > 0.95
    assert [row["epsilon"] for row in laplace["rows"]] == [None, 3, 25]
    meaning = found["meanings"][0]
    assert (meaning["bounds"]["count"], meaning["bounds"]["epsilon"], meaning["unit"]) == (4, 12, "sentence")
    metric = found["meanings"][3]
    assert (metric["worst_case"], metric["unit"]) == (50, "text"), "a metric mechanism is compared by its worst case"
    assert all(each["found"] <= each["claim"] for each in found["memberships"])
    assert {each["name"] for each in found["inversions"]} == {"texts", "codes", "laplace & co"}
    (masking,) = found["maskings"]
    surviving = {each["name"]: (each["texts"], each["surviving"]) for each in masking["attributes"]}
    assert surviving["contact"] == (200, 0)
    assert surviving["occupation"] == surviving["family"] == (200, 200)
    assert {each["name"] for each in found["linkages"]} == {"texts", "codes", "laplace & co", "e-mail"}
    policy = next(each for each in found["advice"] if each["endpoint"] == "sanitize")
    assert {"OCCUPATION", "RELATIONSHIP"} <= {*policy["body"]["mask"]["entities"]}
    masked = tenant.http.post("/sanitize", json={"documents": [{"text": "My mother left."}], **policy["body"]})
    assert masked.status_code == 200, masked.text

    report = tenant.http.get(f"{path}/report")
    assert report.headers["content-type"] == "text/html; charset=utf-8"
    assert "laplace &amp; co" in report.text
    assert "without a privacy guarantee" in " ".join(report.text.replace("<b>", "").replace("</b>", "").split())
    card = tenant.http.get(f"{path}/card").text
    for text in (report.text, json.dumps(found), card, json.dumps(job)):
        assert SECRET not in text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"methods": []}, "methods"),
        ({"methods": [METHODS[0], METHODS[0]]}, None),
        (
            {"methods": [{"name": "x", "endpoint": "embed/sentdp", "body": {"mechanism": "walrus"}}]},
            "methods.0.body.mechanism",
        ),
        (
            {"methods": [METHODS[0], {"name": "x", "endpoint": "embed/vector", "body": {"epsilon": 1}}]},
            "methods.1.body.epsilon",
        ),
        ({"methods": [{"name": "x", "endpoint": "sanitize", "body": {"documents": []}}]}, "methods.0.body.documents"),
        ({"epsilons": [3, 1]}, None),
        ({"epsilons": [0.5, 1e9]}, "epsilons"),
        ({"repetitions": 1}, "repetitions"),
        ({"texts": [{"text": ""}]}, "texts.0.text"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_by_its_member(
    gateway: Gateway, change: dict[str, Any], field: str | None
) -> None:
    body = {"name": "own", "texts": rows(2), **change}
    answer = gateway.tenant().http.post("/jobs/evaluation", json=body)
    assert answer.status_code == 422, answer.text
    if field:
        assert answer.json()["errors"][0]["field"].removeprefix("body.").startswith(field), answer.text
    assert SECRET not in answer.text
    assert "walrus" not in answer.text


def test_too_few_texts_fail_the_job(gateway: Gateway) -> None:
    tenant = gateway.tenant()
    body = {"name": "own", "methods": METHODS[:1], "texts": rows(3)}
    job = until(tenant.http, tenant.http.post("/jobs/evaluation", json=body).raise_for_status().json()["job_id"])
    assert (job["status"], job["problem"]["reason"]) == ("failed", "too-few-texts")
