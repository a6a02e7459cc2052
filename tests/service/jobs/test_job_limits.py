"""Limits of jobs by tenant: whose job starts next, how long one runs, how many packs and models a tenant keeps."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from corpus_kit import embedding_rows, job, json_lines, rows, submit, until, upload
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway, opened_gateway

from core.state.jobs import JobRecord
from service.files.stored import StoredFiles
from service.jobs.runner import JobQueue


def entry(job_id: str) -> Any:
    """What the queue reads of a job such as `a1`, the first of tenant `a`."""
    return SimpleNamespace(owner=job_id[0], job_id=job_id)


def waiting(*names: str) -> JobQueue:
    """A queue of jobs in this order of arrival."""
    queue = JobQueue()
    for name in names:
        queue.put(entry(name))
    return queue


def order_of(queue: JobQueue, *, running: int) -> list[str]:
    """How the jobs start while up to `running` of them run; the oldest ends first."""

    async def run() -> list[str]:
        started: list[JobRecord] = []
        while len(queue):
            if len(started) >= running:
                queue.ended(started[len(started) - running])
            started.append(await queue.get())
        return [each.job_id for each in started]

    return asyncio.run(asyncio.wait_for(run(), 300))


def test_three_tenants_start_in_turns() -> None:
    queue = waiting("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    assert order_of(queue, running=1) == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_a_tenant_that_always_comes_back_does_not_overtake_one_that_waits() -> None:
    async def run() -> list[str]:
        queue = waiting("b1", "b2", "b3")
        started = []
        for number in range(3):
            queue.put(entry(f"a{number}"))
            for _ in range(2):
                found = await queue.get()
                queue.ended(found)
                started.append(found.job_id)
        return started

    assert asyncio.run(run()) == ["b1", "a0", "b2", "a1", "b3", "a2"]


def test_a_removed_job_does_not_start() -> None:
    queue = waiting("a1", "b1")
    assert queue.remove("a1")
    assert not queue.remove("a1")
    assert order_of(queue, running=1) == ["b1"]


limited = module_gateway(
    JOBS_PER_TENANT_MAX="6",
    JOB_MEMORY_BYTES_MAX=str(4 << 30),
    changes={"service.jobs.attempt.JOBS_WAITING_MAX": 8, "domains_per_tenant_max": 2},
)


def submitted(tenant: Tenant, count: int = 2, **fields: Any) -> str:
    created = submit(tenant.http, rows(count), **fields)
    assert created.status_code == 202, created.text
    found: str = created.json()["job_id"]
    return found


@pytest.mark.slow("process")
def test_jobs_of_one_tenant_leave_places_in_the_queue(limited: Gateway) -> None:
    first, second = limited.tenant(), limited.tenant()
    jobs = [(first, submitted(first, 3000))]  # it runs while the others wait
    until(first.http, jobs[0][1], "running")
    jobs += [(first, submitted(first)) for _ in range(4)]
    refused = submit(first.http, rows(2))
    jobs += [(second, submitted(second))]
    for tenant, job_id in reversed(jobs):
        tenant.http.post(f"/jobs/{job_id}/cancel")
        until(tenant.http, job_id)
    assert (refused.status_code, refused.json()["code"]) == (429, "tenant-limit")
    assert refused.json()["limit"] == "queue_tenant_share"


@pytest.mark.slow("process")
def test_a_job_that_runs_too_long_fails_and_the_next_one_starts(tmp_path: Path) -> None:
    with opened_gateway(tmp_path, JOB_SECONDS_MAX="1") as gateway:
        tenant, other = gateway.tenant(), gateway.tenant()
        long = submitted(tenant, 3000)
        short = submitted(other)
        assert until(other.http, short)["status"] == "failed"
        ended = job(tenant.http, long)
        assert (ended["status"], ended["problem"]["reason"]) == ("failed", "time-limit")


@pytest.mark.usefixtures("processes")
def test_a_cancelled_job_gives_its_place_back_at_once(limited: Gateway) -> None:
    tenant, other = limited.tenant(), limited.tenant()
    held = submitted(tenant, 3000)
    until(tenant.http, held, "running")
    for _ in range(10):
        waits = submitted(tenant)
        assert tenant.http.post(f"/jobs/{waits}/cancel").json()["status"] == "cancelled"
    created = submit(other.http, rows(2))
    assert created.status_code == 202, created.text
    tenant.http.post(f"/jobs/{held}/cancel")


@pytest.mark.slow("training")
def test_a_long_job_gives_its_place_to_another_tenant_at_a_checkpoint(tmp_path: Path) -> None:
    with opened_gateway(tmp_path, changes={"service.jobs.attempt.JOB_TURN_S": 0.1}) as gateway:
        first, second = gateway.tenant(), gateway.tenant()
        long = submitted(first, 210)
        until(first.http, long, "running")
        behind = submitted(first)
        short = submitted(second)
        ended = until(second.http, short)
        assert job(first.http, long)["ended_ms"] is None
        done = until(first.http, long, within_s=300.0)
        assert (done["status"], done["attempts"], done["result"]["documents"]) == ("succeeded", 1, 210)
        assert ended["started_ms"] < until(first.http, behind)["started_ms"]


def keep(gateway: Gateway, tenant: Tenant, kind: str, *names: str) -> None:
    """Files as of earlier jobs."""
    path = gateway.data_dir / "as-if-built"
    path.write_bytes(b"as if built")
    for name in names:
        gateway.on_loop(gateway.service.parts[StoredFiles].put(tenant.name, kind, name, {".safetensors": path}))


def over(answer: Any, limit: str) -> bool:
    return (answer.status_code, answer.json()["code"], answer.json()["limit"]) == (429, "tenant-limit", limit)


@pytest.mark.usefixtures("processes")
def test_a_tenant_keeps_so_many_domains(limited: Gateway) -> None:
    tenant, other = limited.tenant(), limited.tenant()
    keep(limited, tenant, "domains", "kept")
    busy = submitted(other, 3000)  # so that the next job waits
    until(other.http, busy, "running")
    waits = submitted(tenant, name="waits")

    refused = submit(tenant.http, rows(2), name="third")
    accepted = [submit(tenant.http, rows(2), name=name).status_code for name in ("kept", "waits")]
    of_other = submit(other.http, rows(2), name="third").status_code
    tenant.http.post(f"/jobs/{waits}/cancel")
    assert tenant.http.delete("/domains/kept").status_code == 204
    other.http.post(f"/jobs/{busy}/cancel")

    assert over(refused, "domains_per_tenant_max")
    assert accepted == [202, 202]
    assert of_other == 202
    for running in tenant.http.get("/jobs").json()["jobs"]:
        until(tenant.http, running["job_id"])
    assert submit(tenant.http, rows(2), name="third").status_code == 202


@pytest.mark.usefixtures("processes")
def test_a_tenant_keeps_so_many_fine_tuned_models(tmp_path: Path) -> None:
    with opened_gateway(tmp_path, {}, changes={"infill_models_per_tenant_max": 1}) as gateway:
        tenant = gateway.tenant()
        keep(gateway, tenant, "infill", "kept")
        body = {"name": "one-more", "documents": rows(20)}
        assert over(tenant.http.post("/jobs/infill", json=body), "infill_models_per_tenant_max")


@pytest.mark.usefixtures("processes")
def test_a_body_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """JSON is held in memory, and lines are not."""
    with opened_gateway(
        tmp_path,
        changes={
            "service.http.middleware.JOB_JSON_BYTES_MAX": 200_000,
            "service.http.middleware.JOB_STREAM_BYTES_MAX": 400_000,
        },
    ) as gateway:
        tenant = gateway.tenant()
        content = json_lines(embedding_rows(110))
        assert 200_000 < len(content) < 400_000
        assert submit(tenant.http, rows(600)).status_code == 413
        created = upload(tenant.http, content)
        assert created.status_code == 202, created.text
        assert upload(tenant.http, (b'{"text": "' + b"x" * 900 + b'"}\n' for _ in range(1000))).status_code == 413
        tenant.http.post(f"/jobs/{created.json()['job_id']}/cancel")
        until(tenant.http, created.json()["job_id"])


def test_a_domain_that_needs_too_much_memory_is_refused_before_it_is_built(limited: Gateway) -> None:
    tenant = limited.tenant()
    body = {"name": "wide", "embeddings": [[[1.0] * 8192]] * 110}
    refused = tenant.http.post("/jobs/domain", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "bad-corpus")
    assert refused.json()["reason"] == "out-of-memory"
    assert tenant.http.get("/jobs").json()["jobs"] == []
