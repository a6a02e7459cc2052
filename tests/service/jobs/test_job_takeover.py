"""Two gateways on one Redis and one object store: each runs the jobs of both. Either may die, pause or be copied."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from corpus_kit import embedding_rows, job, json_lines, until, upload
from gateway_kit import LEAN, Gateway, Tenant, children
from redis_kit import DeployedServer, installed_server
from s3_kit import s3_server
from synthesis_kit import shop_request, shop_rows

pytestmark = [
    pytest.mark.slow("crash"),
    pytest.mark.skipif(installed_server() is None, reason="needs redis-server 7 or later"),
]

LONG_S = 300.0  # of waits: a loaded machine does not fail a test
RECORD = {"epsilon": 3.0, "delta": 1e-4, "basic_delta": 1e-4}


@dataclass
class Pair:
    """Two gateways with data directories of their own."""

    first: Gateway
    second: Gateway

    def tenant(self) -> tuple[Tenant, Tenant]:
        """A new tenant, with a client for each gateway."""
        tenant = self.first.tenant(record=RECORD)
        return tenant, self.second.reconnected(tenant)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    for name in ("redis", "first", "second"):
        (folder / name).mkdir()
    with ExitStack() as ended:
        server = DeployedServer(folder / "redis")
        ended.callback(server.stop)
        server.start()
        objects = ended.enter_context(s3_server())
        settings = LEAN | objects.environment(objects.bucket())
        settings |= {"REDIS_URL": server.url, "PRIVACY_GATEWAY_MASTER_KEY": "7" * 64}
        settings["PRIVACY_GATEWAY_EPOCH_FILE"] = str(folder / "ledger.epoch")
        first = Gateway(folder / "first/data", settings)
        ended.callback(first.stop)
        second = Gateway(folder / "second/data", settings)
        ended.callback(second.stop)
        yield Pair(first, second)


def eventually(what: Callable[[], Any], within_s: float = LONG_S) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found


def synthesis(tenant: Tenant) -> str:
    body = shop_request() | {"rows": shop_rows(60)}
    created = tenant.http.post("/jobs/synthesis", json=body)
    assert created.status_code == 202, created.text
    return str(created.json()["job_id"])


def paused_job(pair: Pair, job_id: str) -> tuple[Gateway, int]:
    """Return the gateway that runs a job and the job's process, paused after its cost is spent and its noise is drawn.

    The process loads its trainer next, which takes more than a second: it cannot have ended.
    """
    gateways = (pair.first, pair.second)
    runs = eventually(
        lambda: next((own for own in gateways if (own.data_dir / "jobs" / job_id / "release").exists()), None)
    )
    process = runs.pid_of("gpu_workers.jobs")
    os.kill(process, signal.SIGSTOP)
    return runs, process


def transitions(tenant: Tenant) -> list[str]:
    entries = tenant.http.get(f"/budget/{tenant.name}/record/journal").json()["entries"]
    return [entry["transition"] for entry in entries]


def logged(gateway: Gateway, event: str) -> bool:
    return event in gateway.log_path.read_text()


def test_what_one_gateway_builds_every_gateway_uses_and_deletes(pair: Pair) -> None:
    near, far = pair.tenant()
    created = upload(near.http, json_lines(embedding_rows(110, dimension=8)), name="own")
    job_id = created.json()["job_id"]
    assert until(far.http, job_id, within_s=LONG_S)["status"] == "succeeded"
    vectors = [{"embeddings": [[0.1 * number for number in range(8)]] * 3}]

    for tenant in (near, far):
        assert tenant.embed(vectors, domain="own", normalize=True).status_code == 200
        names = {row["name"]: row for row in tenant.http.get("/domains").json()["domains"]}
        assert (names["own"]["scope"], names["own"]["usable"]) == ("tenant", True)
    artifacts = {tenant.http.get(f"/jobs/{job_id}/artifact").content for tenant in (near, far)}
    cards = {tenant.http.get(f"/jobs/{job_id}/card").text for tenant in (near, far)}
    assert len(artifacts) == len(cards) == 1

    assert far.http.delete("/domains/own").status_code == 204
    for tenant in (near, far):
        assert tenant.embed(vectors, domain="own", normalize=True).status_code == 422
    assert far.http.delete(f"/jobs/{job_id}/artifact").status_code == 204
    assert near.http.get(f"/jobs/{job_id}/artifact").status_code == 409


def test_a_job_that_waits_for_a_busy_gateway_runs_on_another(pair: Pair) -> None:
    near, _ = pair.tenant()
    jobs = [synthesis(near) for _ in range(2)]
    gateways = {paused_job(pair, job_id)[0].data_dir for job_id in jobs}

    assert len(gateways) == 2
    assert {job(near.http, job_id)["status"] for job_id in jobs} == {"running"}
    for job_id in jobs:
        near.http.post(f"/jobs/{job_id}/cancel")
        assert until(near.http, job_id, within_s=LONG_S)["status"] == "cancelled"


def test_another_gateway_finishes_the_job_of_a_dead_one_and_charges_it_once(pair: Pair) -> None:
    near, far = pair.tenant()
    job_id = synthesis(near)
    dying, process = paused_job(pair, job_id)
    living = far if dying is pair.first else near
    os.kill(process, signal.SIGCONT)
    dying.die()
    try:
        done = until(living.http, job_id, within_s=LONG_S)
        assert done["status"] == "succeeded", done
        assert done["attempts"] >= 2
        assert done["spent"]["epsilon"] == 1.0
        assert transitions(living) == ["open", "reserve", "commit"]
        assert living.http.get(f"/jobs/{job_id}/artifact").status_code == 200
    finally:
        dying.start()


def test_a_gateway_that_was_paused_can_not_finish_its_job(pair: Pair) -> None:
    near, far = pair.tenant()
    job_id = synthesis(near)
    paused, process = paused_job(pair, job_id)
    living = far if paused is pair.first else near
    os.kill(paused.process.pid, signal.SIGSTOP)
    os.kill(process, signal.SIGCONT)  # it goes on without its gateway, and makes an outcome of its own
    try:
        done = until(living.http, job_id, within_s=LONG_S)
        artifact = living.http.get(f"/jobs/{job_id}/artifact").content
    finally:
        os.kill(paused.process.pid, signal.SIGCONT)
    assert done["status"] == "succeeded", done
    assert done["attempts"] >= 2
    eventually(lambda: logged(paused, "job-lost"))
    eventually(lambda: process not in children(paused.process.pid))

    again = paused.reconnected(near)
    assert job(again.http, job_id) == job(living.http, job_id) == done
    assert again.http.get(f"/jobs/{job_id}/artifact").content == artifact
    assert transitions(again) == ["open", "reserve", "commit"]
    eventually(lambda: not (paused.data_dir / "jobs" / job_id).exists())


def test_a_copy_of_a_data_directory_takes_nothing_from_the_original(pair: Pair) -> None:
    near, _ = pair.tenant()
    pair.second.stop()
    job_id = synthesis(near)
    _, process = paused_job(pair, job_id)
    shutil.rmtree(pair.second.data_dir)
    shutil.copytree(pair.first.data_dir, pair.second.data_dir, ignore_dangling_symlinks=True)
    pair.second.start()
    os.kill(process, signal.SIGCONT)

    done = until(near.http, job_id, within_s=LONG_S)
    assert (done["status"], done["attempts"]) == ("succeeded", 1), done
    assert transitions(near) == ["open", "reserve", "commit"]
