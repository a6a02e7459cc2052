"""Jobs on job runners in processes of their own, through the API of a gateway in this process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import held_job
import pytest
from corpus_kit import job, until, until_no_folders
from gateway_kit import LEAN, Tenant
from held_job_kind import HeldKind
from held_kit import Bench, HeldRunner, eventually, short_folder, until_gone
from held_runner import TOKEN
from inprocess_kit import Gateway

from service.registry import JOB_KINDS

SECRET = "quizzlethorpe"


@pytest.fixture(scope="module")
def sockets() -> Iterator[Path]:
    with short_folder() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def gateway(sockets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that uses the runners `first` and `second`, wherever they are."""
    JOB_KINDS.append(lambda parts: HeldKind())
    held_job.add_kind()
    addresses = [f"jobs=unix:{sockets}/{name}" for name in ("first", "second")]
    settings = LEAN | {
        "PRIVACY_GATEWAY_JOBS": "remote",
        "PRIVACY_GATEWAY_WORKERS": json.dumps(addresses),
        "PRIVACY_GATEWAY_WORKERS_TOKEN": TOKEN,
        "PRIVACY_GATEWAY_JOB_TURN_S": "1",
    }
    running = Gateway(tmp_path_factory.mktemp("remote-jobs") / "data", settings)
    yield running
    running.stop()
    JOB_KINDS.pop()
    held_job.remove_kind()


@pytest.fixture
def tenant(gateway: Gateway) -> Tenant:
    return gateway.tenant(record={"epsilon": 10.0})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


class Runners:
    """Starts runners, each in a folder of its own."""

    def __init__(self, sockets: Path, folder: Path) -> None:
        self._sockets = sockets
        self._folder = folder
        self.started: list[HeldRunner] = []

    def __call__(self, name: str, **options: Any) -> HeldRunner:
        runner = HeldRunner(f"unix:{self._sockets}/{name}", self._folder / name, **options)
        self.started.append(runner)
        return runner


@pytest.fixture
def runners(gateway: Gateway, sockets: Path, tmp_path: Path) -> Iterator[Runners]:
    made = Runners(sockets, tmp_path / "runners")
    yield made
    for runner in made.started:
        runner.end()
    eventually(lambda: "reached" in stage(gateway))


def stage(gateway: Gateway) -> str:
    found: str = gateway.anyone.get("/readyz").json()["workers"]["jobs"]
    return found


def test_without_a_runner_a_job_waits_and_is_no_attempt(
    gateway: Gateway, tenant: Tenant, bench: Bench, runners: Runners
) -> None:
    ready = gateway.anyone.get("/readyz")
    assert (ready.status_code, ready.json()["workers"]["jobs"]) == (200, "no job runner can be reached")
    job_id = bench.submit(tenant, "waits", answers=[SECRET, "no", "yes"])
    cancelled = bench.submit(tenant, "cancelled")
    assert job(tenant.http, job_id)["status"] == "queued"
    assert 'gateway_workers_ready{role="jobs"} 0.0' in gateway.anyone.get("/metrics").text
    assert tenant.http.post(f"/jobs/{cancelled}/cancel").json()["status"] == "cancelled"

    runner = runners("first")
    bench.held("waits")
    assert stage(gateway) == "ready (0 of 1 places are free)"
    assert 'gateway_workers_ready{role="jobs"} 1.0' in gateway.anyone.get("/metrics").text
    names = sorted(path.name for path in bench.work("waits").iterdir())
    assert names == ["release", "run.lock"], "neither the input nor a wrapped key"
    assert not any(SECRET.encode() in path.read_bytes() for path in runner.data_dir.rglob("*") if path.is_file())
    running = job(tenant.http, job_id)
    assert (running["status"], running["attempts"]) == ("running", 1)
    bench.let_go("waits")
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 1), done
    (noise,) = bench.drawn("waits")
    assert done["result"] == {"rows": 3, "count": 3 + int(noise), "device": "the runner's", "kept": False}
    assert done["metrics"] == {"step": 3 + int(noise)}
    assert done["spent"] == tenant.account("record")["committed"] == {"epsilon": 1.0, "delta": 0.0}
    artifact = tenant.http.get(f"/jobs/{job_id}/artifact")
    assert (artifact.status_code, b"held/1" in artifact.content) == (200, True)
    eventually(lambda: not runner.folders)
    until_no_folders(gateway.data_dir / "jobs")


def test_a_cancelled_job_and_one_that_fails(gateway: Gateway, tenant: Tenant, bench: Bench, runners: Runners) -> None:
    runner = runners("first", places=2)
    job_id = bench.submit(tenant, "long")
    failing = bench.submit(tenant, "fails", answers=["yes", "bad"])
    failed = until(tenant.http, failing)
    assert (failed["status"], failed["problem"]["code"], failed["problem"]["line"]) == ("failed", "bad-corpus", 2)
    assert failed["spent"]["epsilon"] == 0.0
    pid, work = bench.held("long"), bench.work("long")
    tenant.http.post(f"/jobs/{job_id}/cancel")
    assert until(tenant.http, job_id)["status"] == "cancelled"
    until_gone(pid, work)
    eventually(lambda: not runner.folders)
    eventually(lambda: stage(gateway) == "ready (2 of 2 places are free)")


def test_a_runner_is_killed_and_another_continues_with_the_same_noise(
    gateway: Gateway, tenant: Tenant, bench: Bench, runners: Runners
) -> None:
    first = runners("first")
    job_id = bench.submit(tenant, "killed")
    pid = bench.held("killed")
    eventually(lambda: job(tenant.http, job_id).get("metrics"), "no checkpoint is stored")
    bench.forget("killed")
    first.kill()
    waiting = eventually(lambda: (found := job(tenant.http, job_id))["status"] == "queued" and found)
    assert waiting["attempts"] == 1
    until_gone(pid, Path("/nonexistent"))
    assert first.folders, "a runner that is killed leaves its folder, encrypted"

    runners("second")
    bench.held("killed")
    bench.let_go("killed")
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 2), done
    (noise,) = bench.drawn("killed")
    assert done["result"]["count"] == 2 + int(noise) == done["metrics"]["step"]
    journal = tenant.http.get(f"/budget/{tenant.name}/record/journal").json()["entries"]
    assert [entry["transition"] for entry in journal] == ["open", "reserve", "commit"]

    first.start()
    eventually(lambda: not first.folders, "the next start removes what the last one left")


def test_a_process_that_dies_too_often_fails_its_job(
    gateway: Gateway, tenant: Tenant, bench: Bench, runners: Runners
) -> None:
    runners("first")
    job_id = bench.submit(tenant, "doomed")
    for _ in range(3):
        pid = bench.held("doomed")
        bench.forget("doomed")
        os.kill(pid, signal.SIGKILL)
    failed = until(tenant.http, job_id)
    assert (failed["status"], failed["attempts"]) == ("failed", 3)
    assert failed["problem"]["code"] == "job-attempts-exhausted"
    assert len(bench.drawn("doomed")) >= 1
    assert tenant.account("record")["committed"]["epsilon"] == 1.0


def test_a_runner_that_drains_gives_its_job_to_another(
    gateway: Gateway, tenant: Tenant, bench: Bench, runners: Runners
) -> None:
    first = runners("first")
    job_id = bench.submit(tenant, "moves", more_bytes=3_000_000)
    pid, work = bench.held("moves"), bench.work("moves")
    bench.forget("moves")
    first.process.terminate()
    assert first.process.wait(120) == 0
    until_gone(pid, work)
    runners("second")
    bench.held("moves")
    bench.let_go("moves")
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 1), done
    assert done["result"]["kept"] is True
    assert len(bench.drawn("moves")) == 1


def test_tenants_take_turns_on_one_place(gateway: Gateway, tenant: Tenant, bench: Bench, runners: Runners) -> None:
    runners("first")
    other = gateway.tenant(record={"epsilon": 10.0})
    long = bench.submit(tenant, "long", writes=True)
    bench.held("long")
    bench.forget("long")
    short = bench.submit(other, "short")
    bench.held("short")
    assert job(tenant.http, long)["status"] == "queued"
    bench.let_go("short")
    assert until(other.http, short)["status"] == "succeeded"
    bench.let_go("long")
    done = until(tenant.http, long)
    assert (done["status"], done["attempts"]) == ("succeeded", 1)
    assert len(bench.drawn("long")) == 1
