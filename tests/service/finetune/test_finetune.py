"""Private fine-tuning over HTTP: what it costs and when, what it tells, what is refused."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus_kit import until
from finetune_http_kit import NOTHING, RECORD, costs, events, stream, submit, terms, tiny_encoder, transitions
from finetune_kit import LABELS, labelled
from gateway_kit import Gateway, Tenant

from core.finetune.inputs import Hyperparameters
from gpu_workers.finetune.artifact import load_classifier

PLANTED = "the zanzibar walrus"
PUBLIC_METRICS = {"step", "steps", "public_rows", "public_accuracy", "public_balanced_accuracy", "public_macro_f1"}
PUBLIC_METRICS |= {"public_labels_given"}


@pytest.fixture
def owner(real_gateway: Gateway) -> Tenant:
    return real_gateway.tenant(record=RECORD)


@pytest.fixture(scope="module")
def tiny(real_gateway: Gateway) -> Path:
    """The operator's encoder `tiny`, in place."""
    return tiny_encoder(real_gateway)


@pytest.mark.slow("training")
def test_a_classifier_of_private_pairs_and_what_it_cost(real_gateway: Gateway, owner: Tenant, tmp_path: Path) -> None:
    fields = {"pairs": True, "private": labelled(40, pairs=True), "public": labelled(10, pairs=True)}
    fields |= {"rank": 4, "pieces_max": 32, "learning_rate": 1e-3, "weight_decay": 0.01}
    estimate = owner.http.post("/budget/estimate", json=terms(pairs=True, rank=4)).json()
    cost = estimate["accounts"][0]["cost"]
    assert estimate["allowed"]
    assert estimate["privacy"]["adjacency"] == "replace-one"
    assert cost["epsilon"] > 50 >= estimate["privacy"]["certificate"]["epsilon"] > 49.5
    key = {"Idempotency-Key": "k-1"}
    created = submit(owner, headers=key, **fields)
    assert created.status_code == 202, created.text
    block = created.json()
    assert (block["kind"], block["label"]) == ("finetune", "towns")
    assert block["reserved"] in (cost, NOTHING)
    states = events(owner, block["job_id"])
    done = states[-1]
    assert done["status"] == "succeeded", done
    assert costs(done) == costs(owner.account("record"), "committed") == (cost, NOTHING)
    assert transitions(owner) == ["open", "reserve", "commit"]
    metrics = done["metrics"]
    assert metrics.keys() == PUBLIC_METRICS
    assert (metrics["step"], metrics["steps"], metrics["public_rows"]) == (6, 6, 10)
    assert all(state.get("metrics", {}).keys() <= PUBLIC_METRICS for state in states)
    result = done["result"]
    assert (result["rows"], result["batch"], result["steps"], result["method"]) == (40, 8, 6, "lora")
    assert (result["rank"], result["pieces_max"], result["learning_rate"], result["weight_decay"]) == (
        4, 32, 1e-3, 0.01,
    )  # fmt: skip
    assert result["privacy"]["epsilon"] == cost["epsilon"]
    assert result["certificate"] == estimate["privacy"]["certificate"]
    assert result["metrics"]["accuracy"] == metrics["public_accuracy"]
    path = tmp_path / "towns.safetensors"
    path.write_bytes(owner.http.get(f"/jobs/{done['job_id']}/artifact").content)
    info, _, _ = load_classifier(path)
    assert (info.labels, info.pairs, info.hyperparameters.rank) == (LABELS, True, 4)
    assert info.epsilon == result["certificate"]["epsilon"]
    card = owner.http.get(f"/jobs/{done['job_id']}/card")
    assert card.headers["content-type"].startswith("text/markdown")
    assert "Epsilon by every accountant" in card.text
    assert real_gateway.tenant().http.get(f"/jobs/{done['job_id']}/card").status_code == 404
    again = submit(owner, headers=key, **fields)
    assert (again.headers["idempotency-replayed"], again.json()["job_id"]) == ("true", done["job_id"])
    assert transitions(owner) == ["open", "reserve", "commit"]


def test_every_hyperparameter_is_in_the_api_page(owner: Tenant) -> None:
    members = owner.http.get("/openapi.json").json()["components"]["schemas"]["FinetuneRequest"]["properties"]
    for hyperparameter in dataclasses.fields(Hyperparameters):
        assert members[hyperparameter.name].get("default") == hyperparameter.default


@pytest.mark.slow("training")
def test_rows_can_be_allocated_to_the_steps_of_each_epoch(owner: Tenant, tiny: Path) -> None:
    fields = {"model": "tiny", "steps": None, "epochs": 2.0, "sampling": "random_allocation"}
    estimate = owner.http.post("/budget/estimate", json=terms(**fields)).json()
    poisson = owner.http.post("/budget/estimate", json=terms(**fields | {"sampling": "poisson"})).json()
    assert estimate["accounts"][0]["cost"] != poisson["accounts"][0]["cost"]
    created = submit(owner, **fields)
    assert created.status_code == 202, created.text
    done = until(owner.http, created.json()["job_id"])
    assert done["status"] == "succeeded", done
    assert costs(done) == (estimate["accounts"][0]["cost"], NOTHING)
    assert (done["result"]["sampling"], done["result"]["steps"]) == ("random_allocation", 10)
    assert done["result"]["certificate"] == estimate["privacy"]["certificate"]
    card = owner.http.get(f"/jobs/{done['job_id']}/card").text
    assert "each row in one of the 5 steps of each epoch" in card


def refused_bodies() -> Iterator[tuple[str, dict[str, Any], str]]:
    """What is wrong, the fields of the request, and a field or word of the answer."""
    row = labelled(1)[0]
    yield "no labels", {"labels": None}, "labels"
    yield "one label", {"labels": ["home"]}, "labels"
    yield "the same label twice", {"labels": ["home", "home"]}, "labels"
    yield "no such method", {"method": "walrus"}, "method"
    yield "no such encoder", {"model": "walrus"}, "model"
    yield "a pickle", {"model": "pickled"}, "safetensors"
    yield "too small an epsilon", {"epsilon": 0.5}, "below epsilon"
    yield "too large an epsilon", {"epsilon": 5_000.0}, "epsilon"
    yield "no delta", {"delta": 0.0}, "delta"
    yield "a delta that gives a row away", {"delta": 0.1}, "1 / rows"
    yield "fewer rows than a batch", {"batch": 41}, "batch"
    yield "too few rows", {"rows": 10, "private": labelled(10)}, "rows"
    yield "more rows than the setting", {"rows": 500_001}, "500000"
    yield "too many steps", {"steps": 20_001}, "20000"
    yield "too many epochs", {"steps": None, "epochs": 900.0, "rows": 400, "batch": 1}, "epochs"
    yield "two lengths", {"epochs": 3.0}, "epochs"
    yield "no such sampling", {"sampling": "walrus"}, "sampling"
    allocated = {"sampling": "random_allocation"}
    yield "half an epoch", {"steps": None, "epochs": 2.5} | allocated, "whole number of epochs"
    yield "steps that are no epochs", {"steps": 6} | allocated, "multiple of 5"
    yield "no rank", {"rank": 0}, "rank"
    yield "too many word pieces", {"pieces_max": 513}, "pieces_max"
    yield "no learning rate", {"learning_rate": 0.0}, "learning_rate"
    yield "too much weight decay", {"weight_decay": 1.5}, "weight_decay"
    yield "fewer rows than declared", {"private": labelled(39)}, "wrong-count"
    yield "more rows than declared", {"private": labelled(41)}, "wrong-count"
    yield "one class", {"private": [row] * 40}, "one-class"
    yield "another label", {"private": [*labelled(39), {"text": "a", "label": "walrus"}]}, "unknown-label"
    yield "another label in public", {"public": [{"text": "a", "label": "walrus"}]}, "unknown-label"
    yield "one text of a pair", {"pairs": True}, "wrong-row"
    yield "no text", {"private": [{"label": "home"}]}, "private.0.text"
    yield "a subject", {"subject": "walrus"}, "subject-not-allowed"


def test_errors_that_need_no_job_are_reported_at_once_and_cost_nothing(real_gateway: Gateway, owner: Tenant) -> None:
    for why, fields, message in refused_bodies():
        answer = submit(owner, **fields)
        assert answer.status_code == 422, (why, answer.text)
        assert message in answer.text, (why, answer.text)
        assert "walrus" not in answer.text, why
    too_much = submit(owner, epsilon=250.0)
    assert (too_much.status_code, too_much.json()["code"]) == (403, "budget-exhausted")
    assert real_gateway.admin.post("/jobs/finetune", json=terms()).status_code == 403
    assert owner.http.get("/jobs").json()["jobs"] == []
    assert costs(owner.account("record"), "committed") == (NOTHING, NOTHING)
    assert transitions(owner) == ["open"]
    assert owner.http.get("/models").json()["finetune"] == ["bundled", "tiny", "pickled"]


def test_a_bad_row_of_a_stream_fails_the_job_and_comes_back(real_gateway: Gateway, owner: Tenant) -> None:
    wrong = stream(owner, [*labelled(3), {"text": PLANTED, "label": "walrus"}])
    short = stream(owner, labelled(39))
    assert wrong.json()["reserved"]["epsilon"] > 50
    for answer, reason, line in ((wrong, "unknown-label", 4), (short, "wrong-count", None)):
        failed = until(owner.http, answer.json()["job_id"])
        assert (failed["status"], failed["problem"]["code"]) == ("failed", "bad-corpus")
        assert (failed["problem"]["reason"], failed["problem"].get("line")) == (reason, line)
        assert "walrus" not in json.dumps(failed)
        assert costs(failed) == (NOTHING, NOTHING)
        assert owner.http.get(f"/jobs/{failed['job_id']}/card").json()["code"] == "job-not-succeeded"
    assert costs(owner.account("record"), "committed") == (NOTHING, NOTHING)
