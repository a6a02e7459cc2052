"""Workers on a Ray cluster, in namespaces of their own.

Ray listens on every interface and looks for its address through an outside host. So the cluster and its tests run in a
network namespace with the loopback interface alone, and in a process namespace, which ends every process of Ray.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UNSHARE = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
CONTRACT = ROOT / "tests/gpu_workers/engine/test_engine_contract.py"


def reason_to_skip() -> str:
    try:
        import ray  # noqa: F401
    except ImportError:
        return "Ray is not installed"
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "there is no unshare or ip command"
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        return "namespaces are not allowed"
    return ""


@pytest.mark.slow("process")
@pytest.mark.timeout(1800)
def test_workers_on_a_ray_cluster(tmp_path: Path) -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="ray-") as session:  # short, for the paths of sockets
        environment = os.environ | {
            "TOY_RAY_SESSION": session,
            "TOY_RAY_JOBS": str(tmp_path / "jobs"),
            "TOY_RAY_DIRECTORY": "http://127.0.0.1:8000",
            "PRIVACY_GATEWAY_WORKERS_TOKEN": "toy-token-of-the-workers",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_AUTO_CONNECT": "0",
            "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests/kits"), str(ROOT)]),
        }
        suite = str(Path(__file__).with_name("suite_on_ray.py"))
        tests = f"'{sys.executable}' -m pytest -q -x --all -p no:cacheprovider -p no:xdist --timeout 900 '{suite}'"
        inside = f"ip link set lo up && {tests} --basetemp '{tmp_path}/inside'"
        ran = subprocess.run([*UNSHARE, "sh", "-c", inside], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    print(ran.stdout[-500:])
