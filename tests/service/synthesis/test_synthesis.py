"""Synthetic rows over HTTP: what they cost and when, what is refused, what can be had for nothing."""

import asyncio
import csv
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from alert_kit import until as until_true
from corpus_kit import files_holding, json_lines, until, until_deleted
from finetune_http_kit import NOTHING, costs, transitions
from gateway_kit import Gateway, Tenant
from synthesis_kit import SHOP, shop_request, shop_rows

from gpu_workers.synthesis.stored_generator import load_source
from service.config.settings import Settings
from service.jobs.kind import Outputs
from service.synthesis.job_kind import SynthesisFields, SynthesisKind

COST = {"epsilon": 1.0, "delta": 1e-5}
RECORD = {"epsilon": 3.0, "delta": 1e-4, "basic_delta": 1e-4}


@pytest.fixture
def owner(real_gateway: Gateway) -> Tenant:
    """A tenant whose record account takes three releases at epsilon 1."""
    return real_gateway.tenant(record=RECORD)


def submit(tenant: Tenant, *, rows: Any = None, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    body = shop_request(**fields) | {"rows": shop_rows(60) if rows is None else rows}
    return tenant.http.post("/jobs/synthesis", json=body, headers=headers or {})


def stream(tenant: Tenant, rows: list[dict[str, Any]], **fields: Any) -> httpx.Response:
    query = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in shop_request(**fields).items()
    }
    types = {"Content-Type": "application/x-ndjson"}
    return tenant.http.post("/jobs/synthesis", params=query, content=json_lines(rows), headers=types)


def until_sealed(gateway: Gateway, job_id: str) -> Path:
    """The job's folder, once its release is in it."""
    folder = gateway.data_dir / "jobs" / job_id
    until_true(lambda: (folder / "release").exists() or not folder.exists(), "nothing was released")
    assert folder.exists(), "the job ended before it was seen at work"
    return folder


def test_a_job_killed_in_training_releases_once(real_gateway: Gateway, owner: Tenant) -> None:
    rows = shop_rows(400)
    rows[5]["spent"] = 0.1234567890123
    created = stream(owner, rows, steps=40)
    assert created.status_code == 202, created.text
    block = created.json()
    assert (block["kind"], block["label"]) == ("synthesis", "shop")
    assert costs(block) == costs(owner.account("record"), "committed") == (NOTHING, COST)
    folder = until_sealed(real_gateway, block["job_id"])
    os.kill(real_gateway.pid_of("gpu_workers.jobs"), signal.SIGKILL)
    assert not files_holding(real_gateway, [b"0.1234567890123"])
    done = until(owner.http, block["job_id"])
    assert (done["status"], done["attempts"]) == ("succeeded", 2), done
    assert costs(done) == costs(owner.account("record"), "committed") == (COST, NOTHING)
    assert transitions(owner) == ["open", "reserve", "commit"]
    until_deleted(folder)
    result = done["result"]
    assert (result["rows"], result["columns"], result["classes"]) == (400, 3, 2)
    assert result["privacy"]["guarantee"] == "approx-dp"

    job = f"/jobs/{block['job_id']}"
    first = owner.http.post(f"{job}/sample", json={})
    made = [json.loads(line) for line in first.text.splitlines()]
    assert len(made) == 400
    for row in made:
        assert set(row) == {"age", "spent", "colour", "buys"}
        assert isinstance(row["age"], int)
        assert 0 <= row["age"] <= 100
        assert row["colour"] in ("red", "green", "blue")
    more = owner.http.post(f"{job}/sample", json={"rows": 2_500, "format": "csv"})
    assert more.headers["content-type"].startswith("text/csv")
    table = list(csv.reader(io.StringIO(more.text)))
    assert table[0] == ["age", "spent", "colour", "buys"]
    assert len(table) == 2_501
    assert owner.http.post(f"{job}/sample", json={}).text != first.text
    assert owner.http.post(f"{job}/sample", json={"rows": 2_000_000}).status_code == 422

    page = owner.http.get(f"{job}/report")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for part in ("What is free, what is not", "Training", "colour", "<svg", "prefers-color-scheme"):
        assert part in page.text
    for part in ("<script", "http:", "https:", "0.1234567"):
        assert part not in page.text
    assert not files_holding(real_gateway, [b"0.1234567890123"])
    assert transitions(owner) == ["open", "reserve", "commit"], "samples and the page are free"

    other = real_gateway.tenant()
    for answer in (other.http.post(f"{job}/sample", json={}), other.http.get(f"{job}/report")):
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-job")


def test_embeddings_by_marginals_with_a_protected_count(owner: Tenant, tmp_path: Path) -> None:
    schema = {"embedding": {"dimension": 4, "minimum": -0.5, "maximum": 0.5}, "label": SHOP["label"]}
    rows = [{"embedding": [0.1, -0.2, 0.9, 0.0], "buys": "yes"}, {"embedding": [0.3, 0, 0, 0], "buys": "no"}] * 50
    fields = {"schema": schema, "method": "marginals", "row_count": "protected"}
    refused = submit(owner, rows=rows, **fields)
    assert (refused.status_code, refused.json()["reason"], refused.json()["row"]) == (422, "outside-bounds", 0)
    key = {"Idempotency-Key": "k-1"}
    created = submit(owner, rows=rows, outside="clip", headers=key, **fields)
    assert created.status_code == 202, created.text
    again = submit(owner, rows=rows, outside="clip", headers=key, **fields)
    assert again.headers["idempotency-replayed"] == "true"
    assert submit(owner, rows=rows[2:], outside="clip", headers=key, **fields).json()["code"] == "idempotency-conflict"
    done = until(owner.http, created.json()["job_id"])
    assert done["status"] == "succeeded", done
    assert costs(done) == costs(owner.account("record"), "committed") == (COST, NOTHING)
    assert done["result"]["row_count"] == "protected"
    job = f"/jobs/{done['job_id']}"
    made = [json.loads(line) for line in owner.http.post(f"{job}/sample", json={"rows": 7}).text.splitlines()]
    assert [len(row["embedding"]) for row in made] == [4] * 7
    assert all(abs(number) <= 0.5 for row in made for number in row["embedding"])
    header = owner.http.post(f"{job}/sample", json={"rows": 1, "format": "csv"}).text.splitlines()[0]
    assert header == "embedding.0,embedding.1,embedding.2,embedding.3,buys"
    path = tmp_path / "counts.safetensors"
    path.write_bytes(owner.http.get(f"{job}/artifact").content)
    assert load_source(path).rows is None, "the file does not tell the number of rows"


def refused_bodies() -> Iterator[tuple[str, dict[str, Any], str]]:
    """What is wrong, the fields of the request, and a field or word of the answer."""

    def schema(**of: Any) -> dict[str, Any]:
        return {"schema": SHOP | of}

    spent = SHOP["columns"][1]
    row = shop_rows(1)[0]
    yield "no method", {"method": None}, "method"
    yield "no such method", {"method": "walrus"}, "method"
    yield "no bounds", schema(columns=[{"name": "age", "kind": "numeric"}]), "schema.columns.0.minimum"
    yield "too many columns", schema(columns=[{**spent, "name": f"c{i}"} for i in range(1_025)]), "schema.columns"
    yield "no rows", {"rows": []}, "rows"
    yield "one row", {"rows": [row]}, "rows"
    yield "outside its bounds", {"rows": [row, {**row, "age": 101}]}, "outside-bounds"
    yield "another category", {"rows": [row, {**row, "colour": "walrus"}]}, "unknown-category"
    yield "no epsilon", {"epsilon": 0}, "epsilon"
    yield (
        "too small an epsilon",
        {"epsilon": 0.002, "frequencies": 10_000, "delta": 1e-9, "design": "gaussian"},
        "smallest epsilon",
    )
    yield "bins of pearl", {"bins": 3}, "bins"
    yield "bins of aim", {"method": "aim", "bins": 3}, "bins"
    many = [{**spent, "name": f"c{i}"} for i in range(65)]
    yield "too many columns for aim", {"method": "aim", **schema(columns=many)}, "at most 64 columns"
    yield "steps of marginals", {"method": "marginals", "steps": 3}, "steps"
    yield "too many steps", {"steps": 20_001}, "20000"
    yield "a subject", {"subject": "walrus"}, "subject-not-allowed"


@pytest.mark.parametrize(("design", "frequencies"), [(None, 5_000), ("gaussian", 1_000)])
def test_gaussian_takes_the_papers_number_of_frequencies(tmp_path: Path, design: str | None, frequencies: int) -> None:
    kind = SynthesisKind(Settings(data_dir=tmp_path))
    fields = SynthesisFields(**shop_request(design=design, frequencies=None)).model_dump()
    price = asyncio.run(kind.price("owner", fields))
    spec = kind.spec(fields | dict(price.fields), Outputs("owner", tmp_path / "a.safetensors"))
    assert spec.frequencies == frequencies


def test_errors_that_need_no_job_are_reported_at_once_and_cost_nothing(real_gateway: Gateway, owner: Tenant) -> None:
    for why, fields, message in refused_bodies():
        answer = submit(owner, **fields)
        assert answer.status_code == 422, why
        assert message in answer.text, (why, answer.text)
        assert "walrus" not in answer.text, why
    nan = json.dumps(shop_request() | {"rows": [*shop_rows(2), {**shop_rows(1)[0], "age": float("nan")}]})
    types = {"Content-Type": "application/json"}
    assert owner.http.post("/jobs/synthesis", content=nan, headers=types).status_code == 400
    too_much = submit(owner, epsilon=3.5)
    assert (too_much.status_code, too_much.json()["code"]) == (403, "budget-exhausted")
    assert too_much.json()["remaining"]["epsilon"] == 3.0
    assert real_gateway.admin.post("/jobs/synthesis", json=shop_request()).status_code == 403
    assert owner.http.get("/jobs").json()["jobs"] == []
    assert costs(owner.account("record"), "committed") == (NOTHING, NOTHING)
    assert transitions(owner) == ["open"]
    estimate = owner.http.post("/budget/estimate", json=shop_request()).json()
    assert (estimate["allowed"], estimate["accounts"][0]["cost"]) == (True, COST)
    assert estimate["privacy"]["advice"].startswith("pearl: 2 of 3 columns")


def test_a_bad_row_of_a_stream_fails_the_job_and_comes_back(real_gateway: Gateway, owner: Tenant) -> None:
    rows = [*shop_rows(3), {**shop_rows(1)[0], "colour": "walrus"}]
    created = stream(owner, rows)
    assert costs(created.json()) == (NOTHING, COST)
    failed = until(owner.http, created.json()["job_id"])
    assert (failed["status"], failed["problem"]["code"]) == ("failed", "bad-corpus")
    assert (failed["problem"]["reason"], failed["problem"]["line"]) == ("unknown-category", 4)
    (fault,) = failed["problem"]["faults"]
    assert (fault["column"], fault["lines"], fault["count"]) == ("colour", [4], 1)
    assert fault["permitted"] == "one of red, green, blue"
    assert "walrus" not in json.dumps(failed)
    assert costs(failed) == costs(owner.account("record"), "committed") == (NOTHING, NOTHING)
    assert transitions(owner) == ["open", "reserve", "cancel"]
    until_deleted(real_gateway.data_dir / "jobs" / failed["job_id"])
    for answer in (
        owner.http.post(f"/jobs/{failed['job_id']}/sample", json={}),
        owner.http.get(f"/jobs/{failed['job_id']}/report"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "job-not-succeeded")
