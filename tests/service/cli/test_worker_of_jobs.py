"""`privacy-gateway worker --role jobs`: a job of a registered kind runs there, and is what a local one is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_kit import run_command
from corpus_kit import until
from gateway_kit import LEAN
from held_kit import eventually, short_folder
from inprocess_kit import Gateway
from job_runner_kit import TOKEN, CommandRunner, uses_runners
from synthesis_kit import shop_request, shop_rows


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[CommandRunner]:
    with short_folder() as folder:
        started = CommandRunner(f"unix:{folder}/runner", tmp_path / "runner", places=2)
        yield started
        started.end()


@pytest.mark.slow("process")
def test_a_synthesis_on_a_runner(runner: CommandRunner, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data", LEAN | uses_runners(runner.address))
    try:
        tenant = gateway.tenant(record={"epsilon": 5.0, "delta": 1e-4, "basic_delta": 1e-4})
        body = shop_request(method="marginals") | {"rows": shop_rows(100)}
        created = tenant.http.post("/jobs/synthesis", json=body)
        assert created.status_code == 202, created.text
        done = until(tenant.http, created.json()["job_id"])
        assert (done["status"], done["attempts"]) == ("succeeded", 1), done
        assert done["spent"] == tenant.account("record")["committed"] == {"epsilon": 1.0, "delta": 1e-5}
        path = f"/jobs/{done['job_id']}"
        assert tenant.http.get(f"{path}/artifact").status_code == 200
        assert tenant.http.get(f"{path}/report").text.startswith("<!")
        eventually(lambda: "2 of 2" in gateway.anyone.get("/readyz").json()["workers"]["jobs"])
    finally:
        gateway.stop()


def test_roles_and_places_that_are_none(tmp_path: Path) -> None:
    wrong = run_command(tmp_path, "worker", "--role", "train", "--listen", "127.0.0.1:0", environment=TOKEN)
    assert "embed, sanitize, fill, jobs" in wrong.stderr
    wrong = run_command(tmp_path, "worker", "--role", "embed", "--jobs", "2", "--listen", "x:0", environment=TOKEN)
    assert "--jobs is for the role jobs" in wrong.stderr
