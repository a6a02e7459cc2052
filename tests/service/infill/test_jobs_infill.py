"""A language model of a tenant's own, over HTTP: fine-tuned by a job that is killed on its way, used, deleted."""

import json
import os
import signal
from typing import Any

import httpx
import pytest
from alert_kit import until as until_true
from corpus_kit import PLANTED, embedding_rows, files_holding, json_lines, rows, until, until_deleted
from gateway_kit import Gateway, Tenant

MASK = {"techniques": ["entity"], "entities": ["EMAIL_ADDRESS"]}
ADDRESS = "jo@example.org"
TEXT = "The parcel went to Zworykin near our house."


def submit(http: httpx.Client, of: list[dict[str, Any]], **fields: Any) -> httpx.Response:
    return http.post("/jobs/infill", json={"name": "own", "documents": of} | fields)


def fill(tenant: Tenant, *, mode: str = "topk", model: str = "own", **fields: Any) -> httpx.Response:
    body = {
        "documents": [{"text": TEXT}],
        "mask": {"techniques": ["vocabulary"], "vocabulary_size": 20_000},
        "fill": {"mode": mode, "model": model} | fields,
    }
    return tenant.http.post("/sanitize", json=body)


@pytest.mark.slow("crash")
def test_a_job_killed_on_its_way_makes_a_model_for_its_tenant_alone(real_gateway: Gateway, real_tenant: Tenant) -> None:
    made = [*rows(19), {"text": f"{rows(1, seed=7)[0]['text']} {PLANTED} Write to {ADDRESS}."}]
    created = real_tenant.http.post(
        "/jobs/infill",
        params={"name": "own", "steps": "25", "mask": json.dumps(MASK)},
        content=json_lines(made),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert created.status_code == 202, created.text
    block = created.json()
    assert (block["kind"], block["label"], block["status"]) == ("infill", "own", "queued")
    assert block["reserved"] == {"epsilon": 0.0, "delta": 0.0}
    needles = (b"zanzibar", ADDRESS.encode(), PLANTED.encode("utf-16-le"))
    folder = real_gateway.data_dir / "jobs" / block["job_id"]
    until_true(lambda: (folder / "training-1").exists() or not folder.exists(), "no checkpoint was written")
    assert folder.exists(), "the job ended before it was seen at work"
    assert (folder / "filled-1-000000").exists()
    assert not files_holding(real_gateway, needles)
    os.kill(real_gateway.pid_of("gpu_workers.jobs"), signal.SIGKILL)

    done = until(real_tenant.http, block["job_id"])
    assert (done["status"], done["attempts"]) == ("succeeded", 2)
    assert (done["result"]["documents"], done["result"]["places"]) == (20, 1)
    assert done["result"]["privacy"]["guarantee"] == "none"
    assert not files_holding(real_gateway, needles)
    until_deleted(folder)
    assert len(real_tenant.http.get(f"/jobs/{block['job_id']}/artifact").content) > 1_000_000
    facts = {"name": "own", "usable": True, "documents": 20, "rounds": 1, "steps": 25}
    assert real_tenant.http.get("/models").json()["fine_tuned"] == [facts]

    for mode in ("top1", "topk"):
        filled = fill(real_tenant, mode=mode)
        assert filled.status_code == 200, filled.text
        assert filled.json()["privacy"]["guarantee"] == "none"
        assert "fine-tuned" in filled.json()["privacy"]["note"]
        text = filled.json()["data"][0]["text"]
        assert text.startswith("The parcel went to ")
        assert "Zworykin" not in text
    refused = fill(real_tenant, mode="dp", epsilon=1.0)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
    assert fill(real_tenant, mode="marker").status_code == 422

    other = real_gateway.tenant()
    anonymous = {"instance": None, "request_id": None}
    theirs, nobodys = fill(other), fill(other, model="unheard-of")
    assert theirs.status_code == nobodys.status_code == 422
    assert {**theirs.json(), **anonymous} == {**nobodys.json(), **anonymous}
    assert other.http.get("/models").json()["fine_tuned"] == []
    assert other.http.delete("/models/fine-tuned/own").json()["code"] == "unknown-model"
    assert other.http.get(f"/jobs/{block['job_id']}/artifact").status_code == 404

    for path in (real_gateway.data_dir / "store/files/tenants" / real_tenant.name).iterdir():
        path.write_bytes(path.read_bytes()[:-10])
    (copy,) = (real_gateway.data_dir / "cache/infill/tenants" / real_tenant.name).glob("own.*.safetensors")
    copy.unlink()
    assert fill(real_tenant).json()["code"] == "blob-corrupt"
    assert real_tenant.http.get("/models").json()["fine_tuned"] == [{"name": "own", "usable": False}]
    assert real_tenant.http.delete("/models/fine-tuned/own").status_code == 204
    assert real_tenant.http.delete("/models/fine-tuned/own").status_code == 404
    assert fill(real_tenant).status_code == 422
    assert real_tenant.committed("token") == 0


def test_bad_parameters_are_refused_before_a_job_is_made(real_tenant: Tenant) -> None:
    for fields in [
        {"mask": {"techniques": ["walrus"]}}, {"mask": {"entities": ["WALRUS"]}}, {"mask": {"allow_list": "walrus"}},
        {"mask": {"techniques": ["all"]}}, {"mask": {"vocabulary_size": 1}}, {"fill": {"mode": "dp"}},
        {"fill": {"mode": "top1", "k": 3}}, {"fill": {"k": 1_000_000}}, {"rounds": 4}, {"rounds": 0}, {"steps": 0},
        {"steps": 1_000_000}, {"steps": "25"}, {"name": "../walrus"}, {"documents": embedding_rows(1)}, {"walrus 1": 1},
    ]:  # fmt: skip
        answer = submit(real_tenant.http, rows(20), **fields)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-input"), answer.text
        assert "walrus" not in answer.text.lower()
        lines = real_tenant.http.post(
            "/jobs/infill",
            params={"name": "own"} | {name: v if name == "name" else json.dumps(v) for name, v in fields.items()},
            content=json_lines(rows(1)),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert (lines.status_code, lines.json()["code"]) == (422, "invalid-input"), lines.text
        assert real_tenant.http.get("/jobs").json()["jobs"] == []


def test_a_corpus_that_cannot_be_used_and_a_key_that_has_no_text(real_gateway: Gateway, real_tenant: Tenant) -> None:
    assert submit(real_gateway.admin, rows(20)).status_code == 403
    failed = until(real_tenant.http, submit(real_tenant.http, rows(5)).json()["job_id"])
    assert (failed["status"], failed["problem"]["reason"]) == ("failed", "too-few-documents")
    assert real_tenant.http.get("/models").json()["fine_tuned"] == []
