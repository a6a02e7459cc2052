"""Jobs outlive what kills their process, their gateway or their Redis; they end once, and leave no files."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from corpus_kit import embedding_rows, job, json_lines, rows, submit, until, until_deleted, until_no_folders, upload
from gateway_kit import LEAN, Gateway, Tenant, has_loaded, refused_start, until_ended, until_idle
from redis_kit import DeployedServer, installed_server
from synthesis_kit import shop_request, shop_rows

from core.files.file_version import file_digest

pytestmark = pytest.mark.slow("crash")

DOCUMENTS = 260  # a shard of text takes long enough to be caught between two of them
SHARDS = 3
SETTINGS = LEAN | {
    "PRIVACY_GATEWAY_ENCODER_PRECISION": "float",  # slower than integers: the job lasts longer
    "PRIVACY_GATEWAY_JOB_ATTEMPTS_MAX": "2",
    "PRIVACY_GATEWAY_JOBS_WAITING_MAX": "1",
    "PRIVACY_GATEWAY_JOB_JSON_BYTES_MAX": "200000",
    "PRIVACY_GATEWAY_JOB_STREAM_BYTES_MAX": "400000",
    "PRIVACY_GATEWAY_REDIS_TIMEOUT_S": "15",  # an upload waits for it
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("crashing") / "data", SETTINGS)
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(shared: Gateway) -> Gateway:
    """This file's own gateway, which every test may kill."""
    if shared.process.poll() is not None:
        shared.start()
    return shared


def small() -> list[dict[str, Any]]:
    """Two shards that are written at once; the pack takes seconds."""
    return embedding_rows(110, dimension=8)


def process_of(gateway: Gateway) -> int:
    return gateway.until_child("gpu_workers.jobs")


def until_shards(gateway: Gateway, job_id: str, count: int, *, within_s: float = 300.0) -> dict[str, str]:
    """Names and digests of the finished shards, once there are `count`. The job's process is paused then.

    A pause lasts until the store has what the folder has, or for a second: a shard that the process has written but
    not yet reported is not stored before it goes on. A job that has ended has no shards, and gets none.
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        assert blobs_of(gateway, job_id), "the job ended before it was paused"
        if len(shards_of(gateway, job_id)) < count:
            time.sleep(0.02)
            continue
        process = process_of(gateway)
        os.kill(process, signal.SIGSTOP)
        paused = time.monotonic()
        while time.monotonic() < paused + 1:
            if (found := stored_shards(gateway, job_id)) is not None:
                return found
            time.sleep(0.02)
        resume(process)
        time.sleep(0.1)
    raise AssertionError("no checkpoint was written")


def resume(process: int) -> None:
    os.kill(process, signal.SIGCONT)


def shards_of(gateway: Gateway, job_id: str) -> list[Path]:
    return list((gateway.data_dir / "jobs" / job_id).glob("shard-*"))


def stored_shards(gateway: Gateway, job_id: str) -> dict[str, str] | None:
    """Names and digests of the shards, if the store has exactly the files of the folder."""
    folder = gateway.data_dir / "jobs" / job_id
    found = {path.name: file_digest(path) for path in shards_of(gateway, job_id)}
    stored = [path.name.partition("-")[2] for path in blobs_of(gateway, job_id)]
    others = len(list(folder.glob("[ksi]*"))) - len(found)
    whole = set(found.values()) <= set(stored) and len(stored) == len(found) + others + 1
    return found if whole else None


def blobs_of(gateway: Gateway, job_id: str) -> list[Path]:
    return list(gateway.data_dir.glob(f"store/jobs/tenants/*/{job_id}/*"))


def kept_shards(gateway: Gateway, job_id: str, before: dict[str, str]) -> bool:
    """Encrypted anew, they would have other digests."""
    folder = gateway.data_dir / "jobs" / job_id
    return all(file_digest(folder / name) == digest for name, digest in before.items())


def test_the_gateway_dies_and_the_job_goes_on_from_its_checkpoint(gateway: Gateway, tenant: Tenant) -> None:
    job_id = submit(tenant.http, rows(DOCUMENTS)).json()["job_id"]
    until_shards(gateway, job_id, 1)
    waiting = submit(tenant.http, small(), name="next").json()["job_id"]  # before the first job can end
    resume(process_of(gateway))
    before = until_shards(gateway, job_id, 2)
    resume(process_of(gateway))
    orphan = gateway.data_dir / "jobs" / ("0" * 32)
    gateway.die()
    orphan.mkdir()
    (gateway.data_dir / "jobs" / ".incoming-1").mkdir()

    gateway.start()
    tenant = gateway.reconnected(tenant)
    assert not orphan.exists()
    assert not (gateway.data_dir / "jobs" / ".incoming-1").exists()
    until_shards(gateway, job_id, min(len(before) + 1, SHARDS))
    assert kept_shards(gateway, job_id, before)
    resume(process_of(gateway))
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 2)
    assert done["result"]["documents"] == DOCUMENTS
    assert until(tenant.http, waiting)["attempts"] == 1
    until_no_folders(gateway.data_dir / "jobs")
    assert tenant.embed(domain="law").status_code == 200


def test_an_orderly_end_is_no_attempt_and_leaves_no_process(gateway: Gateway, tenant: Tenant) -> None:
    job_id = submit(tenant.http, rows(DOCUMENTS)).json()["job_id"]
    before = until_shards(gateway, job_id, 2)
    pid = process_of(gateway)
    with httpx.stream(
        "GET", f"{gateway.url}/jobs/{job_id}/events", headers={"Authorization": f"Bearer {tenant.key}"}, timeout=300
    ) as stream:
        lines = stream.iter_lines()
        next(lines)
        os.kill(pid, signal.SIGTERM)  # a service manager signals every process of the gateway
        resume(pid)
        gateway.process.terminate()
        for _ in lines:  # a stream that is open does not hold up the end
            pass
    assert gateway.process.wait(300) == 0
    until_ended(pid)
    assert (gateway.data_dir / "jobs" / job_id / "input").exists()

    gateway.start()
    tenant = gateway.reconnected(tenant)
    until_shards(gateway, job_id, min(len(before) + 1, SHARDS))
    assert kept_shards(gateway, job_id, before)
    resume(process_of(gateway))
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 1)


def test_the_process_dies_once_and_then_too_often(gateway: Gateway, tenant: Tenant) -> None:
    job_id = submit(tenant.http, small()).json()["job_id"]
    until_shards(gateway, job_id, 1)
    os.kill(process_of(gateway), signal.SIGKILL)
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 2)

    doomed = submit(tenant.http, small(), name="doomed").json()["job_id"]
    former = 0
    for _ in range(2):
        pid = process_of(gateway)
        while pid == former:
            time.sleep(0.02)
            pid = process_of(gateway)
        os.kill(pid, signal.SIGKILL)
        former = pid
    failed = until(tenant.http, doomed)
    assert (failed["status"], failed["attempts"]) == ("failed", 2)
    assert failed["problem"]["code"] == "job-attempts-exhausted"
    until_deleted(gateway.data_dir / "jobs" / doomed)
    assert tenant.embed().status_code == 200


def test_a_checkpoint_that_was_tampered_with_is_refused(gateway: Gateway, tenant: Tenant) -> None:
    job_id = submit(tenant.http, rows(DOCUMENTS)).json()["job_id"]
    digest = until_shards(gateway, job_id, 1)["shard-000000"]
    resume(process_of(gateway))
    gateway.die()
    shard = next(path for path in blobs_of(gateway, job_id) if path.name.endswith(digest))
    shard.write_bytes(shard.read_bytes()[:-100])
    gateway.start()
    tenant = gateway.reconnected(tenant)
    failed = until(tenant.http, job_id)
    assert (failed["status"], failed["problem"]["code"]) == ("failed", "job-files-lost")
    until_deleted(gateway.data_dir / "jobs" / job_id)


def test_redis_dies_under_a_job(gateway: Gateway, tenant: Tenant) -> None:
    """Requests fail while Redis is down. The job continues, and its end is reported when Redis is back."""
    job_id = submit(tenant.http, small()).json()["job_id"]
    until_shards(gateway, job_id, 1)
    gateway.kill("redis-server")
    resume(process_of(gateway))
    codes = set()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        answer = tenant.http.get(f"/jobs/{job_id}")
        codes.add(answer.status_code)
        if answer.status_code == 200 and 503 in codes:
            break
        time.sleep(0.01)
    assert codes <= {200, 503}
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 1)


def test_a_job_that_charges_outlives_redis_and_gateway_and_charges_once(gateway: Gateway) -> None:
    """Without the ledger it draws nothing; what it has released it keeps."""
    tenant = gateway.tenant(record={"epsilon": 1.5, "delta": 1e-4, "basic_delta": 1e-4})
    body = shop_request(steps=40) | {"rows": shop_rows(200)}
    job_id = tenant.http.post("/jobs/synthesis", json=body).json()["job_id"]
    process = process_of(gateway)
    folder = gateway.data_dir / "jobs" / job_id
    redis = gateway.pid_of("redis-server")
    os.kill(redis, signal.SIGSTOP)
    try:
        until_idle(process)
        assert has_loaded(process, "numpy"), "it has come as far as the charge"
        assert not (folder / "release").exists()
        assert (folder / "input").exists()
    finally:
        os.kill(redis, signal.SIGCONT)
    deadline = time.monotonic() + 300
    while not (folder / "release").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    gateway.die()

    gateway.start()
    tenant = gateway.reconnected(tenant)
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 2), done
    assert done["spent"] == tenant.account("record")["committed"] == {"epsilon": 1.0, "delta": 1e-5}
    journal = tenant.http.get(f"/budget/{tenant.name}/record/journal").json()["entries"]
    assert [entry["transition"] for entry in journal] == ["open", "reserve", "commit"]
    until_deleted(folder)


def test_an_upload_while_redis_is_away_makes_no_job(gateway: Gateway, tenant: Tenant) -> None:
    os.kill(gateway.pid_of("redis-server"), signal.SIGSTOP)
    stopped = gateway.pid_of("redis-server")
    try:
        answer = submit(tenant.http, small())
        assert answer.status_code == 503
    finally:
        os.kill(stopped, signal.SIGCONT)
    until_no_folders(gateway.data_dir / "jobs")


@pytest.mark.skipif(installed_server() is None, reason="no redis-server of version 7 or later is installed")
def test_two_gateways_on_one_redis(tmp_path: Path) -> None:
    """A second gateway leaves alone what the first runs. Either answers about it, and may cancel it."""
    for name in ("redis", "first", "second"):
        (tmp_path / name).mkdir()
    with ExitStack() as ended:
        server = DeployedServer(tmp_path / "redis")
        ended.callback(server.stop)
        server.start()
        first = Gateway(tmp_path / "first" / "data", LEAN | {"REDIS_URL": server.url})
        ended.callback(first.stop)
        assert "data directory" in refused_start(first.data_dir, {"REDIS_URL": server.url})
        master = (first.data_dir / "master.key").read_bytes()
        settings = LEAN | {"REDIS_URL": server.url, "PRIVACY_GATEWAY_MASTER_KEY": master.hex()}
        settings["PRIVACY_GATEWAY_EPOCH_FILE"] = str(first.data_dir / "ledger.epoch")
        assert "STORE_URL" in refused_start(tmp_path / "alone", settings), "it has a store of its own"
        settings["PRIVACY_GATEWAY_STORE_URL"] = f"file://{first.data_dir}/store"
        second = Gateway(tmp_path / "second" / "data", settings)
        ended.callback(second.stop)
        tenant = first.tenant()
        beside = second.reconnected(tenant)
        job_id = submit(tenant.http, rows(2000)).json()["job_id"]
        until_shards(first, job_id, 1)
        resume(process_of(first))
        assert job(beside.http, job_id)["status"] == "running"
        second.process.kill()
        second.process.wait()
        second.start()
        beside = second.reconnected(tenant)
        assert job(beside.http, job_id)["attempts"] == 1, "the second gateway leaves it alone"
        assert beside.http.post(f"/jobs/{job_id}/cancel").json()["cancel_requested"] is True
        assert until(tenant.http, job_id)["status"] == "cancelled"
        until_deleted(first.data_dir / "jobs" / job_id)


def test_limits_of_an_upload(gateway: Gateway, tenant: Tenant) -> None:
    assert submit(tenant.http, rows(600)).status_code == 413
    content = json_lines(embedding_rows(110))
    assert 200_000 < len(content) < 400_000
    created = upload(tenant.http, content)
    assert created.status_code == 202, created.text

    def endless() -> Any:
        for _ in range(1000):
            yield b'{"text": "' + b"x" * 900 + b'"}\n'

    assert upload(tenant.http, endless()).status_code == 413
    assert tenant.http.post("/sanitize", content=b"x" * 9_000_000).status_code == 413
    until(tenant.http, created.json()["job_id"])
    until_no_folders(gateway.data_dir / "jobs")
