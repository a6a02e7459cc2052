"""Files of a tenant on real worker servers that share no folder with the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import preloaded_kit
import pytest
from engine_kit import free_address
from gateway_kit import COMMAND, LEAN, clean_environment
from inprocess_kit import Gateway

from core.files.file_version import file_digest
from core.ledger.stored_files import DOMAINS
from gpu_workers.engine import metrics
from gpu_workers.packs import pack_paths

TOKEN = {"PRIVACY_GATEWAY_WORKERS_TOKEN": "canary0123456789-of-workers"}
LIMITS: dict[str, dict[str, str]] = {
    "embed": {},
    "sanitize": {"PRIVACY_GATEWAY_WORKER_FILES_BYTES_MAX": "20000"},
}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Path]]:
    """A gateway, and the folder in which its workers keep their files."""
    folder = tmp_path_factory.mktemp("remote-files")
    files = folder / "workers"
    own = {"PRIVACY_GATEWAY_ENCODER_THREADS": "1", "PRIVACY_GATEWAY_WORKER_FILES_DIR": str(files)}
    addresses = {role: free_address() for role in LIMITS}
    with (folder / "workers.log").open("ab") as log:
        workers = [
            preloaded_kit.start(
                [str(COMMAND), "worker", "--role", role, "--listen", address, "--data-dir", str(folder / "none")],
                env=clean_environment() | LEAN | TOKEN | own | LIMITS[role],
                output=log,
                errors=log,
            )
            for role, address in addresses.items()
        ]
    listed = json.dumps([f"{role}={address}" for role, address in addresses.items()])
    settings = LEAN | TOKEN | {"PRIVACY_GATEWAY_ENGINE": "remote", "PRIVACY_GATEWAY_WORKERS": listed}
    gateway = Gateway(folder / "data", settings)
    yield gateway, files
    gateway.stop()
    for worker in workers:
        worker.terminate()
        worker.wait(300)


def sent(role: str) -> float:
    """The bytes of files that this process has sent to workers of a role."""
    return float(metrics.FILES_BYTES.labels(role)._value.get())


def kept(files: Path, role: str) -> set[str]:
    return {path.name for path in (files / f"{role}-0").glob("*/*")}


@pytest.mark.slow("process")
def test_a_pack_a_recogniser_and_a_projection_reach_workers_without_a_shared_folder(
    remote: tuple[Gateway, Path],
) -> None:
    gateway, files = remote
    tenant = gateway.tenant(epsilon=1000, vector={"epsilon": 1000})
    general = pack_paths()["general"]
    gateway.on_loop(gateway.service.files.put(tenant.name, DOMAINS, "own", {".safetensors": general}))
    before = sent("embed")
    for _ in range(2):
        answer = tenant.embed(domain="own", epsilon=1)
        assert answer.status_code == 200, answer.text
        assert sent("embed") - before == general.stat().st_size
    assert kept(files, "embed") == {file_digest(general)}
    assert tenant.committed() == 2.0

    made = tenant.http.put("/sanitize/recognisers/codes", json={"entity": "CODE", "deny": ["quizzlethorpe"]})
    assert made.status_code == 201, made.text
    body = {"documents": [{"text": "The name is quizzlethorpe."}], "mask": {"recognisers": ["codes"]}}
    before = sent("sanitize")
    for _ in range(2):
        masked = tenant.http.post("/sanitize", json=body)
        assert masked.status_code == 200, masked.text
        assert masked.json()["data"][0]["text"] == "The name is [CODE]."
    (recogniser,) = (gateway.data_dir / "recognisers/tenants" / tenant.name).glob("*.recogniser")
    assert sent("sanitize") - before == recogniser.stat().st_size
    assert kept(files, "sanitize") == {file_digest(recogniser)}
    assert not any(b"quizzlethorpe" in path.read_bytes() for path in files.rglob("*") if path.is_file())

    vectors = np.random.default_rng(1).standard_normal((2, 1024)).tolist()
    before = sent("embed")
    for _ in range(2):
        released = tenant.http.post("/embed/vector", json={"vectors": vectors, "epsilon": 2.0, "dimension": 128})
        assert released.status_code == 200, released.text
        assert np.shape([row["embedding"] for row in released.json()["data"]]) == (2, 128)
        assert sent("embed") - before == 1024 * 128 * 4
    assert len(kept(files, "embed")) == 2


@pytest.mark.slow("process")
def test_files_reach_a_worker_under_a_key_of_the_caller_and_a_replay_needs_none(remote: tuple[Gateway, Path]) -> None:
    """Such a request is reserved before its files are brought."""
    gateway, _ = remote
    tenant = gateway.tenant(token={"epsilon": 1000})
    made = tenant.http.put("/sanitize/recognisers/names", json={"entity": "CODE", "deny": ["frobnicator"]})
    assert made.status_code == 201, made.text
    (recogniser,) = (gateway.data_dir / "recognisers/tenants" / tenant.name).glob("*.recogniser")
    body = {
        "documents": [{"text": "The name is frobnicator."}],
        "mask": {"recognisers": ["names"]},
        "fill": {"mode": "metric_dp", "epsilon": 2.5},
    }
    before = sent("sanitize")
    headers = {"Idempotency-Key": "a-key-of-the-caller"}
    first = tenant.http.post("/sanitize", json=body, headers=headers)
    assert first.status_code == 200, first.text
    charged = tenant.committed("token")
    again = tenant.http.post("/sanitize", json=body, headers=headers)
    assert sent("sanitize") - before == recogniser.stat().st_size
    assert "frobnicator" not in first.text
    assert (again.headers["idempotency-replayed"], again.content) == ("true", first.content)
    assert tenant.account("token")["reserved"]["epsilon"] == 0
    assert tenant.committed("token") == charged > 0


@pytest.mark.slow("process")
def test_what_no_worker_can_keep_is_refused_before_its_cost_is_reserved(remote: tuple[Gateway, Path]) -> None:
    gateway, files = remote
    tenant = gateway.tenant(token={"epsilon": 1000})
    terms = [f"term-{number:06}" for number in range(5000)]
    made = tenant.http.put("/sanitize/recognisers/many", json={"entity": "CODE", "deny": terms})
    assert made.status_code == 201, made.text
    (recogniser,) = (gateway.data_dir / "recognisers/tenants" / tenant.name).glob("*.recogniser")
    assert recogniser.stat().st_size > 20_000
    body = {
        "documents": [{"text": "The name is term-000001."}],
        "mask": {"recognisers": ["many"]},
        "fill": {"mode": "metric_dp", "epsilon": 2.5},
    }
    refused = tenant.http.post("/sanitize", json=body)
    assert (refused.status_code, refused.json()["code"]) == (503, "worker-not-ready")
    assert "Release-Id" not in refused.headers, "nothing was reserved"
    refunded = tenant.http.post("/sanitize", json=body, headers={"Idempotency-Key": "a-key-of-the-caller"})
    assert (refunded.status_code, refunded.json()["code"]) == (503, "worker-not-ready")
    assert "Release-Id" in refunded.headers, "it may be a replay, so it is not refused before"
    assert tenant.committed("token") == tenant.account("token")["reserved"]["epsilon"] == 0
    assert file_digest(recogniser) not in kept(files, "sanitize")
    plain = tenant.http.post("/sanitize", json=body | {"mask": {}})
    assert plain.status_code == 200, plain.text
