"""No child process of a gateway has a secret in its environment."""

from pathlib import Path

import pytest
from gateway_kit import LEAN, Gateway, children
from table_kit import texts

from gpu_workers.fork_server import allowed, child_environment

CANARY = "canary0123456789"
SECRETS = {
    "PRIVACY_GATEWAY_MASTER_KEY": "c0ffee" + "ab" * 29,
    "PRIVACY_GATEWAY_ADMIN_KEY": f"{CANARY}-admin-key-of-the-operator",
    "PRIVACY_GATEWAY_ADMIN_KEY_PREVIOUS": f"{CANARY}-admin-key-of-last-year-",
    "PRIVACY_GATEWAY_INFILL_API_KEY": f"{CANARY}-endpoint", "REDIS_PASSWORD": f"{CANARY}-redis",
    "HF_TOKEN": f"{CANARY}-hub", "AWS_SECRET_ACCESS_KEY": f"{CANARY}-cloud", "SOMETHING_NEW": f"{CANARY}-unknown",
}  # fmt: skip


def environment_of(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return dict(pair.partition("=")[::2] for pair in pairs if pair)


@pytest.mark.slow("process")
def test_every_child_of_a_running_gateway_has_allowed_variables_alone(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data", LEAN | SECRETS, forked=False)
    try:
        (tmp_path / "data" / "admin.key").write_text(SECRETS["PRIVACY_GATEWAY_ADMIN_KEY"])
        tenant = gateway.tenant()
        plan = {"mechanism": {"kind": "gaussian", "noise_multiplier": 1.0}, "steps": 1, "delta": 1e-6}
        assert tenant.http.post("/accounting/compare", json=plan).status_code == 200
        documents = [{"text": f"Document {number} is about the harbour. It rains."} for number in range(200)]
        assert tenant.http.post("/jobs/domain", json={"name": "law", "documents": documents}).status_code == 202
        gateway.until_child("gpu_workers.jobs.process")

        found = children(gateway.process.pid)
        for kind in texts("""
            redis-server || fork_server_process || engine.worker || resource_tracker || spawn_main || jobs.process
        """):
            assert any(kind in line for line in found.values()), f"{kind}: {found}"
        for pid, line in found.items():
            environment = environment_of(pid)
            if not any(titled in line for titled in ("redis-server", "engine.worker", "jobs.process")):
                # Those write their title over what shows their environment. The fork server's is that of its forks.
                assert environment, line
                assert not {name for name in environment if not allowed(name)}, line
            assert not {secret for secret in SECRETS.values() if secret in str(environment)}, line
    finally:
        gateway.stop()


def test_what_a_library_needs_reaches_a_child_and_a_secret_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "LC_ALL", *SECRETS):
        monkeypatch.setenv(name, "1")
    found = child_environment()
    assert found["OMP_NUM_THREADS"] == found["CUDA_VISIBLE_DEVICES"] == found["PYTHONPATH"] == found["LC_ALL"] == "1"
    assert not SECRETS.keys() & found.keys()
