"""A worker on a device where vectors depend on their companions: it never serves, and the gateway says why."""

import os
import time
from pathlib import Path

import httpx
import pytest
from gateway_kit import LEAN, START_S_MAX, Gateway

pytestmark = pytest.mark.slow("outage")

# Python runs this in the process that becomes the workers, before anything else: attention sees the batch.
LEAKING = """
import sys
if "gpu_workers.fork_server_process" in sys.orig_argv:
    from gpu_workers.models import packed_bert
    right = packed_bert.scaled_dot_product_attention
    def leaking(query, key, value, attn_mask):
        out = right(query, key, value, attn_mask=attn_mask)
        return out + 1e-3 * out.mean(dim=0)
    packed_bert.scaled_dot_product_attention = leaking
"""


class Refusing(Gateway):
    """A gateway that is waited for until its embed worker has failed once."""

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log_path.read_text()
            try:
                if "failed" in httpx.get(f"{self.url}/readyz", timeout=15).text:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"no failure is shown:\n{self.log_path.read_text()}")


def test_a_worker_whose_vectors_depend_on_companions_never_serves(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LEAKING)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    gateway = Refusing(tmp_path / "data", {**LEAN, "PYTHONPATH": path, "PRIVACY_GATEWAY_ENCODER_PRECISION": "float"})
    try:
        reason = "the last start failed: on this device a sentence's vector depends on its companions in the batch"
        ready = httpx.get(f"{gateway.url}/readyz", timeout=300)
        assert ready.status_code == 503
        assert reason in ready.json()["workers"]["embed"]
        tenant = gateway.tenant()
        models = {model["role"]: model for model in tenant.http.get("/models").json()["models"]}
        assert models["embed"]["ready"] is False
        assert reason in models["embed"]["stage"]
        refused = tenant.embed()
        assert (refused.status_code, refused.json()["code"]) == (503, "worker-not-ready")
        assert tenant.committed() == 0
        assert "depends on its companions" in gateway.log_path.read_text()
    finally:
        gateway.stop()
