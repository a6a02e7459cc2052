"""`privacy-gateway worker --role jobs`: a job of a registered kind runs there, and is what a local one is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_kit import run_command
from corpus_kit import until
from gateway_kit import COMMAND, LEAN, clean_environment
from held_kit import eventually, short_folder
from inprocess_kit import Gateway
from synthesis_kit import shop_request, shop_rows

TOKEN = {"PRIVACY_GATEWAY_WORKERS_TOKEN": "a-token-of-the-job-runners"}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of a job runner by its command."""
    with short_folder() as folder:
        found = f"unix:{folder}/runner"
        arguments = [
            "worker",
            "--role",
            "jobs",
            "--jobs",
            "2",
            "--listen",
            found,
            "--data-dir",
            str(tmp_path / "runner"),
        ]
        process = subprocess.Popen([str(COMMAND), *arguments], env=clean_environment() | LEAN | TOKEN)
        yield found
        process.terminate()
        assert process.wait(120) == 0
        assert not [path for path in (tmp_path / "runner/job-runs").iterdir() if path.is_dir()]


@pytest.mark.slow("process")
def test_a_synthesis_on_a_runner(address: str, tmp_path: Path) -> None:
    settings = LEAN | TOKEN
    settings |= {"PRIVACY_GATEWAY_JOBS": "remote", "PRIVACY_GATEWAY_WORKERS": json.dumps([f"jobs={address}"])}
    gateway = Gateway(tmp_path / "data", settings)
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
