"""A toy job kind, endpoint, mechanism, recogniser and engine: each is one new file and one row (tests/toys)."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from corpus_kit import until
from gateway_kit import LEAN, Gateway, Tenant
from safetensors.numpy import load
from toys.toy_engine import TEXT

TESTS = Path(__file__).parent.parent
SERVE = (sys.executable, "-m", "toys.serve")
# the toys' folder and the copy of the project that is tested, for the gateway and for its processes
PATH = {"PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}


ANSWERS = {"name": "holidays", "question": "Do you like holidays?", "epsilon": 4.0}


@pytest.fixture(scope="module")
def served(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with the toys, its own workers and job processes."""
    running = Gateway(tmp_path_factory.mktemp("toys") / "data", LEAN | PATH, command=SERVE)
    yield running
    running.stop()


@pytest.fixture
def owner(served: Gateway) -> Tenant:
    return served.tenant()


def submit(tenant: Tenant, **fields: object) -> httpx.Response:
    return tenant.http.post("/jobs/toy", json=ANSWERS | {"answers": [True, False] * 50} | fields)


def test_the_job_runs_in_a_process_of_its_own_and_is_charged_its_price(owner: Tenant) -> None:
    estimate = owner.http.post("/budget/estimate", json=ANSWERS)
    assert estimate.status_code == 200, estimate.text
    assert estimate.json()["privacy"] == {
        "guarantee": "pure-dp", "unit": "record", "adjacency": "replace-one", "epsilon": 4.0,
        "mechanism": "toy_count", "sensitivity": 1,
    }  # fmt: skip
    assert estimate.json()["accounts"][0]["cost"] == {"epsilon": 4.0, "delta": 0.0}
    assert owner.committed("record") == 0

    created = submit(owner)
    assert created.status_code == 202, created.text
    assert (created.json()["kind"], created.json()["label"]) == ("toy", "holidays")
    done = until(owner.http, created.json()["job_id"])
    assert done["status"] == "succeeded", done
    assert done["spent"]["epsilon"] == owner.committed("record") == 4.0
    assert done["result"]["rows"] == 100
    assert abs(done["result"]["count"] - 50) < 20, "noise at epsilon 4 passes 20 about once in 10^35 runs"
    assert [job["job_id"] for job in owner.http.get("/jobs").json()["jobs"]] == [done["job_id"]]

    artifact = load(owner.http.get(f"/jobs/{done['job_id']}/artifact").content)
    assert artifact["count"].tolist() == [done["result"]["count"]]
    card = owner.http.get(f"/jobs/{done['job_id']}/card").text
    assert card.startswith("# Answers to `Do you like holidays?`")


def test_rows_may_be_sent_as_json_lines_and_a_wrong_one_costs_nothing(owner: Tenant) -> None:
    lines = {"Content-Type": "application/x-ndjson"}
    content = b'{"answer": true}\n{"answer": "perhaps"}\n'
    created = owner.http.post("/jobs/toy", params=ANSWERS, content=content, headers=lines)
    assert created.status_code == 202, created.text
    failed = until(owner.http, created.json()["job_id"])
    problem = failed["problem"]
    assert (failed["status"], problem["code"], problem["reason"], problem["line"]) == (
        "failed", "bad-corpus", "wrong-row", 2,
    )  # fmt: skip
    assert owner.committed("record") == 0


def test_wrong_fields_are_refused_with_a_problem_and_the_job_is_in_the_api_page(owner: Tenant) -> None:
    wrong = (({"epsilon": -1}, "body.epsilon"), ({"epsilon": 1e9}, "epsilon"), ({"unknown": 1}, "body.unknown"))
    for fields, field in wrong:
        refused = submit(owner, **fields)
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert field in [error["field"] for error in refused.json()["errors"]]
    paths = owner.http.get("/openapi.json").json()["paths"]
    assert paths["/jobs/toy"]["post"]["summary"] == "Count the answers `yes`"


def test_the_mechanism_releases_and_is_priced_and_shown(owner: Tenant) -> None:
    embed = next(model for model in owner.http.get("/models").json()["models"] if model["role"] == "embed")
    assert "toy_uniform" in embed["mechanisms"]
    body = {"documents": [{"text": "One sentence. And another."}], "epsilon": 2.0, "mechanism": "toy_uniform"}
    priced = owner.http.post("/budget/estimate", json=body).json()
    assert (priced["privacy"]["mechanism"], priced["accounts"][0]["cost"]["epsilon"]) == ("toy_uniform", 2.0)
    released = owner.embed(epsilon=2.0, mechanism="toy_uniform")
    assert released.status_code == 200, released.text
    assert (released.json()["privacy"]["mechanism"], released.json()["privacy"]["guarantee"]) == (
        "toy_uniform",
        "pure-dp",
    )
    assert len(released.json()["data"][0]["embedding"]) == 384
    assert owner.committed() == 2.0


def test_a_tenant_may_have_a_plan_of_the_mechanism(served: Gateway) -> None:
    planned = served.tenant(epsilon=3.0, plans={"toy_uniform": 1.0})
    assert planned.account()["plan"]["mechanism"] == "toy_uniform"
    assert planned.embed(epsilon=1.0, mechanism="toy_uniform").status_code == 200


def test_the_recogniser_masks_its_entity_and_is_shown(owner: Tenant) -> None:
    rows = {row["name"]: row for row in owner.http.get("/entities").json()["entities"]}
    assert rows["TOY_BADGE"]["threshold"] == 0.5
    assert rows["TOY_BADGE"]["default"]
    assert "de" in rows["TOY_BADGE"]["languages"]
    for mask in ({}, {"entities": ["TOY_BADGE"]}, {"language": "de"}):
        body = {"documents": [{"text": "She wears EMP-123456."}], "mask": mask, "return_spans": True}
        answer = owner.http.post("/sanitize", json=body)
        assert answer.status_code == 200, answer.text
        (found,) = answer.json()["data"]
        assert "123456" not in found["text"]
        assert [span["type"] for span in found["spans"]] == ["TOY_BADGE"]
    strict = {"thresholds": {"TOY_BADGE": 1.0}}
    body = {"documents": [{"text": "It is EMP-123456."}], "mask": strict}
    assert owner.http.post("/sanitize", json=body).json()["data"][0]["text"] == "It is EMP-123456."


@pytest.mark.usefixtures("processes")
def test_the_engine_answers_requests_of_its_own(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data", PATH, command=(*SERVE, "--toy-engine"))
    try:
        tenant = gateway.tenant()
        sanitised = tenant.http.post("/sanitize", json={"documents": [{"text": "My name is Ada."}]})
        assert sanitised.status_code == 200, sanitised.text
        assert sanitised.json()["data"][0]["text"] == TEXT
        embedded = tenant.embed()
        assert embedded.status_code == 200, embedded.text
        assert embedded.json()["data"][0]["embedding"] == pytest.approx([384**-0.5] * 384)
        assert tenant.committed() == 1.0
        assert {model["stage"] for model in tenant.http.get("/models").json()["models"]} == {"ready"}
    finally:
        gateway.stop()
