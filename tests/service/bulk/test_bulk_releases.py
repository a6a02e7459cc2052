"""`POST /jobs/release` of a running gateway: every row once, one charge for each, refunds for what was not begun."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import wait_kit
from corpus_kit import until
from gateway_kit import Gateway, Tenant

PART = 1000
pytestmark = pytest.mark.usefixtures("processes")
JSON_LINES = {"Content-Type": "application/x-ndjson"}
SECRET = "Hortensia Quagliarella"  # a value that must be in no file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lake")
    (found / "stores.toml").write_text(
        f'[stores.lake]\nurl = "file://{found}/lake"\nread = true\nwrite = true\n'
        f'[stores.other]\nurl = "file://{found}/other"\nread = true\ntenants = ["nobody"]\n'
    )
    for name in ("lake", "other"):
        (found / name).mkdir()
    return found


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    environment = {"PRIVACY_GATEWAY_BULK_STORES_FILE": str(folder / "stores.toml")}
    environment |= {
        "PRIVACY_GATEWAY_JOB_PRIORITY": "normal",
        "PRIVACY_GATEWAY_TAGGER": "off",
        "PRIVACY_GATEWAY_INFILL": "off",
    }
    started = Gateway(folder / "data", environment)
    yield started
    started.stop()


def lines(texts: list[str]) -> str:
    return "".join(json.dumps({"text": text, "id": f"d{number}"}) + "\n" for number, text in enumerate(texts))


# drawn in a tenth of the time of vectors; a row costs 3 on the account `vector`, 6 on `token`
WORDS = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 3}}


def created(tenant: Tenant, content: str | bytes | None = None, **members: Any) -> str:
    """A job by JSON, or, with content, by an upload of JSON lines."""
    body = {"name": "bulk", "endpoint": "sanitize", "body": WORDS} | members
    if content is None:
        answer = tenant.http.post("/jobs/release", json=body)
    else:
        query = {name: value if isinstance(value, str) else json.dumps(value) for name, value in body.items()}
        answer = tenant.http.post("/jobs/release", params=query, content=content, headers=JSON_LINES)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job_id"])


def rows_of(tenant: Tenant, job_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tenant.http.get(f"/jobs/{job_id}/artifact").text.splitlines()]


def test_an_upload_becomes_vectors_in_parquet_and_each_row_is_charged_once(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1e5)
    texts = ["Yes. It is. So be it."] * (PART + 2)
    job_id = created(
        tenant,
        lines(texts) + "nothing\n" + json.dumps({"text": ["One.", "Two."], "id": 7}) + "\n",
        endpoint="embed/sentdp",
        body={"epsilon": 3},
        source={"columns": {"text": "text", "id": "id"}},
        target={"format": "parquet"},
    )
    job = until(tenant.http, job_id)
    assert job["status"] == "succeeded", job
    assert job["result"] | {"bytes": 0} == {
        "rows": PART + 4, "written": PART + 3, "unreadable": 1, "not_admitted": 0, "parts": 2, "bytes": 0,
    }  # fmt: skip
    assert job["spent"]["epsilon"] == tenant.committed("sentence") == 3 * (PART + 3)
    assert job["metrics"] == {"rows": PART + 3, "rows_written": PART + 3, "rows_unreadable": 1}
    table = pq.read_table(io.BytesIO(tenant.http.get(f"/jobs/{job_id}/artifact").content))
    assert table.column("id").to_pylist()[-3:] == [f"d{PART}", f"d{PART + 1}", "7"]
    assert table.column("sentences").to_pylist()[-2:] == [3, 2]
    vectors = np.stack(table.column("embedding").to_numpy())
    assert vectors.shape == (PART + 3, 384)
    assert np.isfinite(vectors).all()
    assert len(np.unique(vectors[:PART], axis=0)) > PART // 2, "equal documents have noise of their own"
    manifest = tenant.http.get(f"/jobs/{job_id}/manifest").json()
    assert manifest["left_out"] == [{"row": PART + 2, "problem": "not-json"}]
    assert (manifest["privacy"]["epsilon"], manifest["privacy"]["guarantee"]) == (3.0, "pure-dp")
    journal = tenant.http.get(f"/budget/{tenant.name}/sentence/journal").json()["entries"]
    committed = [entry["release_id"] for entry in journal if entry["transition"] == "commit"]
    assert sorted(part["release_id"] for part in manifest["parts"]) == sorted(committed)
    assert {entry["route"] for entry in journal if entry["transition"] == "commit"} == {"jobs/release"}


def test_a_store_is_sanitised_into_parts_of_another_folder_which_is_used_once(gateway: Gateway, folder: Path) -> None:
    tenant = gateway.tenant()
    (folder / "lake/in").mkdir(exist_ok=True)
    with (folder / "lake/in/people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "key"])
        writer.writerows([f"{SECRET} wrote to me at quagliarella{number}@example.org.", number] for number in range(5))
    source = {"store": "lake", "keys": ["in/people.csv"], "columns": {"text": "note", "id": "key"}}
    target = {"store": "lake", "prefix": "out"}
    work = {"endpoint": "sanitize", "body": {"return_spans": True}, "source": source, "target": target}
    job_id = created(tenant, **work)
    job = until(tenant.http, job_id)
    assert (job["status"], job["spent"]["epsilon"]) == ("succeeded", 0), job
    manifest = tenant.http.get(f"/jobs/{job_id}/artifact").json()
    assert manifest == json.loads((folder / "lake/out/manifest.json").read_text())
    assert manifest["privacy"]["guarantee"] == "none"
    rows = [json.loads(line) for line in (folder / "lake/out/part-000000.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [str(number) for number in range(5)]
    assert all("example.org" not in row["text"] for row in rows)
    assert {span["type"] for span in rows[0]["spans"]} >= {"EMAIL_ADDRESS"}

    again = until(tenant.http, created(tenant, **work))
    assert (again["status"], again["problem"]["reason"]) == ("failed", "target-taken")


def test_subjects_pay_for_their_own_rows(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1e5, subject_epsilon=100)
    rows = "".join(json.dumps({"text": "Yes.", "who": who}) + "\n" for who in ("ann", "bob", "ann"))
    job_id = created(tenant, rows, source={"columns": {"text": "text", "subject": "who"}})
    job = until(tenant.http, job_id)
    assert job["status"] == "succeeded", job

    def spent() -> list[float]:
        found = tenant.http.get(f"/budget/{tenant.name}/vector/subjects").json()["subjects"]
        return sorted(row["committed"]["epsilon"] for row in found)

    wait_kit.until(lambda: spent() == [3, 6])


@pytest.mark.parametrize("rows", ["all", "fitting"])
def test_a_budget_that_is_too_small_releases_nothing_or_the_parts_that_fit(gateway: Gateway, rows: str) -> None:
    tenant = gateway.tenant(epsilon=10 * PART)
    job = until(tenant.http, created(tenant, lines(["Yes."] * (2 * PART)), rows=rows))
    if rows == "all":
        assert (job["status"], job["problem"]["reason"]) == ("failed", "budget-exhausted")
        assert tenant.committed("vector") == job["spent"]["epsilon"] == 0
    else:
        assert (job["status"], job["result"]["written"], job["result"]["not_admitted"]) == ("succeeded", PART, PART)
        assert tenant.committed("vector") == job["spent"]["epsilon"] == 3 * PART
    assert tenant.account("vector")["reserved"]["epsilon"] == job["reserved"]["epsilon"] == 0


def test_a_paused_release_goes_on_after_a_killed_gateway_and_a_cancelled_one_is_refunded(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1e6)
    job_id = created(tenant, lines(["Yes. It is so, as far as anybody knows."] * (8 * PART)))
    written = until_written(tenant, job_id, 1)
    assert tenant.http.post(f"/jobs/{job_id}/pause").is_success
    paused = until(tenant.http, job_id, "paused")
    assert paused["reserved"]["epsilon"] + paused["spent"]["epsilon"] == 3 * 8 * PART
    gateway.die()
    gateway.start()
    tenant = gateway.reconnected(tenant)
    assert tenant.http.get(f"/jobs/{job_id}").json()["status"] == "paused"
    assert tenant.http.post(f"/jobs/{job_id}/resume").is_success
    until_written(tenant, job_id, written + 1)
    gateway.die()
    gateway.start()
    tenant = gateway.reconnected(tenant)
    job = until(tenant.http, job_id)
    assert job["status"] == "succeeded", job
    assert [row["row"] for row in rows_of(tenant, job_id)] == list(range(8 * PART))
    assert job["spent"]["epsilon"] == tenant.committed("vector") == 3 * 8 * PART

    other = created(tenant, lines(["Yes. It is so, as far as anybody knows."] * (8 * PART)))
    until_written(tenant, other, 1)
    tenant.http.post(f"/jobs/{other}/cancel")
    cancelled = until(tenant.http, other)
    assert cancelled["status"] == "cancelled"
    own = cancelled["spent"]["epsilon"]
    assert 3 * PART <= own < 3 * 8 * PART
    assert own % (3 * PART) == 0
    assert (cancelled["reserved"]["epsilon"], tenant.committed("vector")) == (0, 3 * 8 * PART + own)


def until_written(tenant: Tenant, job_id: str, parts: int) -> int:
    """Wait until so many parts are written. Returns how many are."""
    while True:
        job = tenant.http.get(f"/jobs/{job_id}").json()
        assert job["status"] in ("queued", "running"), job
        found = int(job.get("metrics", {}).get("rows_written", 0)) // PART
        if found >= parts:
            return found


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"body": {"epsilon": -1}}, "body.body.epsilon"),
        ({"body": {"epsilon": 3, "texts": ["x"]}}, "body.texts"),
        ({"body": {"epsilon": 1e9}}, "body.epsilon"),
        ({"source": {"upload": True, "format": "csv"}}, "source.upload"),
        ({"endpoint": "embed/other"}, "body.endpoint"),
        ({"source": {"store": "other", "keys": ["a.csv"]}}, "source.store"),
        ({"source": {"store": "lake", "keys": ["../a.csv"]}}, "body.source.keys.0"),
        ({"target": {"store": "lake"}}, "body.target"),
        ({"endpoint": "sanitize", "body": {"dry_run": True}}, "body.dry_run"),
    ],
)
def test_what_cannot_be_released_is_refused_with_the_member(gateway: Gateway, changed: Any, field: str) -> None:
    tenant = gateway.tenant()
    body = {"name": "bulk", "endpoint": "embed/vector", "body": {"epsilon": 3}}
    body |= {"source": {"store": "lake", "keys": ["a.csv"]}} | changed
    refused = tenant.http.post("/jobs/release", json=body)
    assert refused.status_code in (400, 422), refused.text
    problem = refused.json()
    assert field in (problem.get("field"), *(each["field"] for each in problem.get("errors", ()))), problem
    assert all(each["message"] for each in problem["errors"])
    assert tenant.http.get("/jobs").json()["jobs"] == []


def test_a_member_of_the_query_is_given_once(gateway: Gateway) -> None:
    query = [("name", "bulk"), ("endpoint", "embed/vector"), ("body", '{"epsilon": 3}'), ("body", '{"epsilon": 300}')]
    refused = gateway.tenant().http.post("/jobs/release", params=query, content=lines(["Yes."]), headers=JSON_LINES)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "query.body")


def test_the_cost_is_known_from_the_number_of_rows(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1e6)
    body = {"endpoint": "embed/vector", "body": {"epsilon": 3}, "source_rows": 250_000}
    found = tenant.http.post("/budget/estimate", json=body).json()
    assert found["accounts"][0]["cost"]["epsilon"] == 750_000, found


def test_no_text_is_on_the_disk_while_a_release_waits(gateway: Gateway, folder: Path) -> None:
    tenant = gateway.tenant(epsilon=1e6)
    job_id = created(tenant, lines([f"{SECRET} {number}." for number in range(5 * PART)]))
    until_written(tenant, job_id, 1)
    tenant.http.post(f"/jobs/{job_id}/pause")
    until(tenant.http, job_id, "paused")
    for path in (folder / "data").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path.name
