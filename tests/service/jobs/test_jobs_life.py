"""The life of a domain job over HTTP, on a real gateway with real processes."""

import json
import shutil
import time
from pathlib import Path

import httpx
import pytest
from alert_kit import until as until_true
from corpus_kit import (
    FEW_STEPS,
    PLANTED,
    built,
    documents,
    embedding_rows,
    files_holding,
    job,
    json_lines,
    rows,
    submit,
    until,
    until_deleted,
    upload,
)
from gateway_kit import Gateway, Tenant, children

from service.jobs.endpoints import event_id


def own_vectors(count: int = 9, dimension: int = 16) -> dict:
    return embedding_rows(1, sentences=count, dimension=dimension, seed=5)[0]


def events_of(http: httpx.Client, job_id: str, **headers: str) -> list[dict]:
    """Every event until the stream ends."""
    found: list[dict] = []
    with http.stream("GET", f"/jobs/{job_id}/events", headers=headers, timeout=300) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        current: dict = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if line == "" and current:
                found.append(current)
                current = {}
            elif name in ("event", "id"):
                current[name] = value
            elif name == "data":
                current["data"] = json.loads(value)
    return found


@pytest.mark.slow("training")
def test_from_public_text_to_a_private_release(real_gateway: Gateway, real_tenant: Tenant) -> None:
    created = submit(real_tenant.http, rows(140))
    assert created.status_code == 202
    block = created.json()
    assert created.headers["location"] == f"/jobs/{block['job_id']}"
    assert (block["kind"], block["status"], block["progress"]) == ("domain", "queued", 0.0)
    assert block["reserved"] == block["spent"] == {"epsilon": 0.0, "delta": 0.0}

    early = real_tenant.http.get(f"/jobs/{block['job_id']}/artifact")
    assert (early.status_code, early.json()["code"]) == (409, "job-not-succeeded")

    events = events_of(real_tenant.http, block["job_id"])
    assert events[-1]["event"] == "succeeded"
    assert {event["event"] for event in events[:-1]} == {"progress"}
    assert len({event["id"] for event in events}) == len(events)
    assert all(event["id"] == event_id(event["data"]) for event in events), "no count of changes, which is a clock"
    fractions = [event["data"]["progress"] for event in events]
    assert fractions == sorted(fractions)
    late = events_of(real_tenant.http, block["job_id"])
    assert [event["event"] for event in late] == ["succeeded"], "a late subscriber gets the present state"

    done = job(real_tenant.http, block["job_id"])
    assert done["status"] == "succeeded"
    assert done["result"]["documents"] == 140
    artifact = real_tenant.http.get(f"/jobs/{block['job_id']}/artifact")
    assert artifact.status_code == 200
    assert b"candidates" in artifact.content[:4000]

    names = {domain["name"]: domain["scope"] for domain in real_tenant.http.get("/domains").json()["domains"]}
    assert names["law"] == "tenant"
    released = real_tenant.embed(domain="law", epsilon=5.0)
    assert released.status_code == 200, released.text
    assert released.json()["dimension"] == 384
    assert real_tenant.committed() == 5.0
    assert real_tenant.embed(domain="law", epsilon=5.0, mechanism="deep_candidate").status_code == 200
    estimate = real_tenant.http.post(
        "/budget/estimate", json={"documents": [{"text": "A."}], "epsilon": 1, "domain": "law"}
    )
    assert estimate.status_code == 200

    path = f"/jobs/{block['job_id']}/artifact"
    assert real_tenant.http.delete(path).status_code == 204
    assert not list(real_gateway.data_dir.rglob(f"{block['job_id']}.*"))
    for again in (real_tenant.http.delete(path), real_tenant.http.get(path)):
        assert (again.status_code, again.json()["code"]) == (409, "job-not-succeeded")
    assert real_tenant.embed(domain="law", epsilon=5.0).status_code == 200, "the domain stays"

    assert real_tenant.http.delete("/domains/law").status_code == 204
    assert real_tenant.http.delete("/domains/law").json()["code"] == "unknown-domain"
    assert real_tenant.embed(domain="law").status_code == 422


@pytest.fixture(scope="module")
def owner(real_gateway: Gateway) -> tuple[Tenant, str]:
    """A tenant with the domain `own`, made of vectors of an encoder of its own, and the job that built it."""
    tenant = real_gateway.tenant()
    vectors = [row["embeddings"] for row in embedding_rows(120)]
    created = tenant.http.post("/jobs/domain", json={"name": "own", "steps": FEW_STEPS, "embeddings": vectors})
    assert created.status_code == 202, created.text
    return tenant, created.json()["job_id"]


def test_cancelling_a_running_and_a_queued_job(real_gateway: Gateway, real_tenant: Tenant) -> None:
    running = submit(real_tenant.http, rows(3000), name="long").json()["job_id"]
    queued = submit(real_tenant.http, rows(110), name="short").json()["job_id"]
    until(real_tenant.http, running, "running")
    assert job(real_tenant.http, queued)["status"] == "queued"

    assert real_tenant.http.post(f"/jobs/{queued}/cancel").json()["status"] == "cancelled"
    cancelling = real_tenant.http.post(f"/jobs/{running}/cancel").json()
    assert cancelling["cancel_requested"] is True
    assert until(real_tenant.http, running)["status"] == "cancelled"
    assert events_of(real_tenant.http, running)[-1]["event"] == "cancelled"
    for job_id in (running, queued):
        until_deleted(real_gateway.data_dir / "jobs" / job_id)
        assert real_tenant.http.post(f"/jobs/{job_id}/cancel").json()["status"] == "cancelled"
    assert not any("gpu_workers.jobs" in line for line in children(real_gateway.process.pid).values())
    counted = 'gateway_jobs_total{kind="domain",status="cancelled"}'
    until_true(lambda: counted in real_tenant.http.get("/metrics").text)
    assert "gateway_jobs_waiting" in real_tenant.http.get("/metrics").text
    newest_first = [found["job_id"] for found in real_tenant.http.get("/jobs").json()["jobs"]]
    assert newest_first == [queued, running]
    page = real_tenant.http.get("/jobs", params={"limit": 1}).json()
    assert [found["job_id"] for found in page["jobs"]] == [queued]
    rest = real_tenant.http.get("/jobs", params={"cursor": page["next_cursor"]}).json()
    assert [found["job_id"] for found in rest["jobs"]] == [running]


def test_another_tenants_jobs_and_domains_do_not_exist(real_gateway: Gateway, owner: tuple[Tenant, str]) -> None:
    tenant, job_id = owner
    assert until(tenant.http, job_id)["status"] == "succeeded"
    assert "own" in [domain["name"] for domain in tenant.http.get("/domains").json()["domains"]]
    other = real_gateway.tenant()
    for method, path in (
        ("GET", f"/jobs/{job_id}"), ("POST", f"/jobs/{job_id}/cancel"), ("GET", f"/jobs/{job_id}/events"),
        ("GET", f"/jobs/{job_id}/artifact"), ("DELETE", f"/jobs/{job_id}/artifact"), ("GET", "/jobs/unheard-of"),
    ):  # fmt: skip
        answer = other.http.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-job"), path
    assert other.http.get("/jobs").json() == {"jobs": [], "next_cursor": None}
    assert '"own"' not in other.http.get("/domains").text
    assert other.embed([own_vectors()], domain="own", normalize=True).status_code == 422
    assert other.http.delete("/domains/own").status_code == 404
    assert real_gateway.client(None).get("/jobs").status_code == 401


@pytest.mark.slow("training")
def test_a_shared_domain_serves_every_tenant_and_ones_own_comes_first(
    real_gateway: Gateway, real_tenant: Tenant
) -> None:
    admin = real_gateway.admin
    created = submit(admin, embedding_rows(110, dimension=8), name="common")
    assert created.status_code == 202, created.text
    assert until(admin, created.json()["job_id"])["status"] == "succeeded"
    assert real_tenant.http.get(f"/jobs/{created.json()['job_id']}").status_code == 404
    assert real_tenant.embed([own_vectors(dimension=8)], domain="common", normalize=True).status_code == 200
    content = json_lines(embedding_rows(110, dimension=12))
    uploaded = upload(
        real_tenant.http, (content[start : start + 5000] for start in range(0, len(content), 5000)), name="common"
    )
    assert uploaded.status_code == 202, uploaded.text
    assert until(real_tenant.http, uploaded.json()["job_id"])["status"] == "succeeded"
    assert real_tenant.embed([own_vectors(dimension=8)], domain="common", normalize=True).status_code == 422
    assert real_tenant.embed([own_vectors(dimension=12)], domain="common", normalize=True).status_code == 200
    assert real_tenant.http.delete("/domains/common").status_code == 204
    assert real_tenant.embed([own_vectors(dimension=8)], domain="common", normalize=True).status_code == 200
    assert admin.delete("/domains/common").status_code == 204


@pytest.mark.slow("training")
def test_a_tenant_named_shared_has_no_shared_domains(real_gateway: Gateway, real_tenant: Tenant) -> None:
    answer = real_gateway.admin.post("/admin/tenants", json={"name": "shared", "epsilon": 10.0})
    impostor = Tenant("shared", answer.json()["key"], real_gateway.client(answer.json()["key"]))
    built(impostor, embedding_rows(110), name="imposed")
    assert "imposed" not in real_tenant.http.get("/domains").text


def largest(folder: Path) -> dict[Path, bytes]:
    """The blobs of the most bytes: those of a pack and of the artifact, which are as long."""
    found = {path: path.read_bytes() for path in folder.iterdir()}
    return {path: content for path, content in found.items() if len(content) == max(map(len, found.values()))}


def test_a_broken_file_breaks_its_domain_alone(real_gateway: Gateway, owner: tuple[Tenant, str]) -> None:
    tenant, job_id = owner
    until(tenant.http, job_id)
    spent = tenant.committed()
    assert tenant.embed([own_vectors()], domain="own", normalize=True).status_code == 200
    (local,) = (real_gateway.data_dir / "cache/domains/tenants" / tenant.name).glob("own.*.safetensors")
    blobs = largest(real_gateway.data_dir / "store/files/tenants" / tenant.name)
    for is_cut, code in ((True, "blob-corrupt"), (False, "blob-missing")):
        local.unlink()
        for blob, whole in blobs.items():
            blob.unlink(missing_ok=True)
            if is_cut:
                blob.write_bytes(whole[:-10])
        answer = tenant.embed([own_vectors()], domain="own", normalize=True)
        assert (answer.status_code, answer.json()["code"]) == (503, code)
        local.touch()
    shown = {domain["name"]: domain["usable"] for domain in tenant.http.get("/domains").json()["domains"]}
    assert (shown["own"], shown["general"]) == (False, True)
    assert tenant.embed().status_code == 200
    assert tenant.committed() == spent + 2.0, "what is missing or broken is never charged"
    for blob, whole in blobs.items():
        blob.write_bytes(whole)
    assert tenant.embed([own_vectors()], domain="own", normalize=True).status_code == 200


def test_a_bad_corpus_fails_its_job(real_tenant: Tenant) -> None:
    for content, reason, line in (
        (b'{"text": "ok"}\n{"text": "walrus"\n', "malformed-json", 2),
        ('{"text": "wälrus"}'.encode("latin-1"), "not-utf-8", 1),
        (b"\n\n", "empty", None),
        (json_lines([*embedding_rows(1), *rows(1)]), "mixed-rows", 2),
    ):
        created = upload(real_tenant.http, content)
        assert created.status_code == 202, created.text
        failed = until(real_tenant.http, created.json()["job_id"])
        assert failed["status"] == "failed"
        assert (failed["problem"]["code"], failed["problem"]["reason"]) == ("bad-corpus", reason)
        assert failed["problem"].get("line") == line
        assert failed["problem"]["type"] == "/problems#bad-corpus"
        assert "walrus" not in json.dumps(failed)


def test_errors_that_need_no_job_are_reported_at_once(real_tenant: Tenant) -> None:
    post = real_tenant.http.post
    row = {"text": "walrus"}
    assert upload(real_tenant.http, b"").json()["reason"] == "empty"
    for body in (
        {"documents": [row]}, {"name": "Bad Name", "documents": [row]}, {"name": "../up", "documents": [row]},
        {"name": "a", "documents": [row], "embeddings": [[[1.0]]]}, {"name": "a"},
        {"name": "a", "documents": [{"text": 3}]}, {"name": "a", "documents": [{"text": "walrus", "sentences": []}]},
        {"name": "a", "documents": [row], "walrus 1": 1}, {"name": "a", "embeddings": [[]]},
        {"name": "a", "documents": [row], "steps": 9}, {"name": "a", "documents": [row], "steps": 601},
    ):  # fmt: skip
        answer = post("/jobs/domain", json=body)
        assert answer.status_code == 422, body
        assert "walrus" not in answer.text
    assert post("/jobs/domain", json={"name": "a", "documents": []}).json()["reason"] == "empty"
    assert post("/jobs/domain", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    infinite = b'{"name": "a", "embeddings": [[[NaN]]]}'
    assert post("/jobs/domain", content=infinite, headers={"Content-Type": "application/json"}).status_code == 400
    assert post("/jobs/domain", content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415
    assert upload(real_tenant.http, b"{}", name="A").status_code == 422
    assert submit(real_tenant.http, [row], **{"Idempotency-Key": "with space"}).status_code == 422
    assert real_tenant.http.get("/jobs").json()["jobs"] == []


@pytest.mark.slow("training")
def test_text_is_nowhere_but_encrypted(real_gateway: Gateway, real_tenant: Tenant) -> None:
    made = [{"sentences": [*parts, PLANTED]} for parts in documents(250)]
    job_id = submit(real_tenant.http, made, name="planted").json()["job_id"]
    needles = (b"zanzibar walrus", b"zanzibar", bytes(PLANTED.encode("utf-16-le")))
    looked = 0
    while job(real_tenant.http, job_id)["status"] in ("queued", "running"):
        assert not files_holding(real_gateway, needles)
        folder = real_gateway.data_dir / "jobs" / job_id
        looked += folder.exists() and (folder / "shard-000000").exists()
        time.sleep(0.2)
    assert looked, "the job was seen at work"
    assert job(real_tenant.http, job_id)["status"] == "succeeded"
    assert not files_holding(real_gateway, needles)
    until_deleted(real_gateway.data_dir / "jobs" / job_id)
    assert PLANTED not in real_tenant.http.get("/metrics").text


def test_a_client_that_leaves_in_the_middle_leaves_nothing(real_gateway: Gateway, real_tenant: Tenant) -> None:
    def half():
        yield json_lines(rows(50))
        raise ZeroDivisionError

    before = set((real_gateway.data_dir / "jobs").iterdir())
    with pytest.raises(ZeroDivisionError):
        upload(real_tenant.http, half())
    until_true(lambda: set((real_gateway.data_dir / "jobs").iterdir()) == before)
    assert real_tenant.http.get("/jobs").json()["jobs"] == []


def test_missing_files_fail_the_job(real_gateway: Gateway, real_tenant: Tenant) -> None:
    running = submit(real_tenant.http, rows(2000), name="first").json()["job_id"]
    queued = submit(real_tenant.http, rows(110), name="second").json()["job_id"]
    until(real_tenant.http, running, "running")
    shutil.rmtree(real_gateway.data_dir / "jobs" / queued)
    shutil.rmtree(real_gateway.data_dir / "store/jobs/tenants" / real_tenant.name / queued)
    real_tenant.http.post(f"/jobs/{running}/cancel")
    failed = until(real_tenant.http, queued)
    assert (failed["status"], failed["problem"]["code"]) == ("failed", "job-files-lost")
