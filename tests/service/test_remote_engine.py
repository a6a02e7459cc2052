"""A gateway whose workers are servers of their own: `privacy-gateway worker` and `ENGINE=remote`."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from command_kit import refused_settings
from engine_kit import free_address
from gateway_kit import COMMAND, DOCUMENT, LEAN, Gateway, children, clean_environment, refused_start, until_ended
from safetensors.numpy import load, save

TOKEN = {"PRIVACY_GATEWAY_WORKERS_TOKEN": "canary0123456789-of-workers"}


@dataclass
class Workers:
    gateway: Gateway
    embed: subprocess.Popen[bytes]
    folder: Path


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    folder = tmp_path_factory.mktemp("remote")
    environment = clean_environment() | LEAN | TOKEN | {"PRIVACY_GATEWAY_ENCODER_THREADS": "1"}
    addresses = {role: free_address() for role in ("embed", "sanitize")}
    started = []
    with (folder / "workers.log").open("ab") as log:
        for role, address in addresses.items():
            command = [str(COMMAND), "worker", "--role", role, "--listen", address, "--data-dir", str(folder / "none")]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    listed = json.dumps([f"{role}={address}" for role, address in addresses.items()])
    settings = LEAN | TOKEN | {"PRIVACY_GATEWAY_ENGINE": "remote", "PRIVACY_GATEWAY_WORKERS": listed}
    gateway = Gateway(folder / "data", settings)
    yield Workers(gateway, started[0], folder)
    gateway.stop()
    for worker in started:
        worker.send_signal(signal.SIGCONT)
        worker.terminate()
        assert worker.wait(300) in (0, -signal.SIGKILL)


@pytest.mark.slow("process")
def test_a_gateway_releases_by_remote_workers_and_charges_nothing_without_them(workers: Workers) -> None:
    gateway = workers.gateway
    tenant = gateway.tenant(epsilon=100_000)
    answer = tenant.embed([{"text": DOCUMENT}, {"sentences": ["One.", "Two."]}], epsilon=2)
    assert answer.status_code == 200, answer.text
    assert [len(row["embedding"]) for row in answer.json()["data"]] == [384, 384]
    assert tenant.committed() == 4.0

    terms = {"request": json.dumps({"epsilon": 4})}
    content = save({"vectors": np.random.default_rng(1).random((5000, 384), np.float32)}, metadata=terms)
    types = {"Content-Type": "application/vnd.safetensors"}
    released = tenant.http.post("/embed/vector/safetensors", content=content, headers=types)
    assert released.status_code == 200, released.text
    assert load(released.content)["embeddings"].shape == (5000, 64)

    masked = tenant.http.post("/sanitize", json={"documents": [{"text": "Write to jo@example.org."}]}).json()
    assert masked["data"][0]["text"] == "Write to [EMAIL_ADDRESS]."
    models = tenant.http.get("/models").json()
    assert "sentence_codes" in json.dumps(models)

    lines = Path(f"/proc/{workers.embed.pid}/environ").read_bytes()
    assert b"MASTER_KEY" not in lines
    child = next(iter(children(workers.embed.pid)))
    assert b"canary0123456789" not in Path(f"/proc/{child}/environ").read_bytes()

    workers.embed.kill()
    workers.embed.wait()
    until_ended(child, within_s=300)
    while (refused := tenant.embed([{"text": DOCUMENT}], epsilon=2)).status_code != 503:
        assert refused.status_code in (200, 502), refused.text
    assert refused.json()["code"] == "worker-not-ready"
    before = tenant.committed()
    assert tenant.embed([{"text": DOCUMENT}], epsilon=2).status_code == 503
    assert tenant.committed() == before
    assert tenant.account()["reserved"]["epsilon"] == 0
    for log in (workers.folder / "workers.log", gateway.log_path):
        assert "The screen is bright" not in log.read_text()
        assert "jo@example.org" not in log.read_text()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ENGINE": "remote"}, "WORKERS_TOKEN"),
        ({"ENGINE": "remote", "WORKERS_TOKEN": "short"}, "16 characters"),
        ({"ENGINE": "remote", "WORKERS_TOKEN": "0123456789abcdef"}, "WORKERS"),
        ({"ENGINE": "ray", "WORKERS_TOKEN": "0123456789abcdef"}, "WORKERS_DIRECTORY"),
        ({"ENGINE": "remote", "WORKERS_TOKEN": "0123456789abcdef", "WORKERS": '["other=a:1"]'}, "ROLE=ADDRESS"),
        (
            {"ENGINE": "remote", "WORKERS_TOKEN": "0123456789abcdef", "WORKERS": '["embed=10.0.0.5:1"]'},
            "embed and sanitize",
        ),
        ({"WORKERS_TLS_CA": "/ca.pem"}, "set together"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], said: str, tmp_path: Path) -> None:
    own = {f"PRIVACY_GATEWAY_{name}": value for name, value in settings.items()}
    refused = refused_settings(tmp_path / "data", own)
    assert said in refused
    assert "0123456789abcdef" not in refused


def test_workers_that_would_be_reached_without_tls_are_refused(tmp_path: Path) -> None:
    settings = {
        "PRIVACY_GATEWAY_ENGINE": "remote",
        "PRIVACY_GATEWAY_WORKERS_TOKEN": "0123456789abcdef",
        "PRIVACY_GATEWAY_WORKERS": '["embed=10.0.0.5:1", "sanitize=10.0.0.5:2"]',
    }
    refused = refused_start(tmp_path / "data", settings)
    assert "needs TLS" in refused
    assert "0123456789abcdef" not in refused
