"""A short run of `make soak`: gateways, workers and Redis are killed under load, and nothing is under-counted."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent


@pytest.mark.slow("crash")
def test_a_short_soak_finds_no_fault() -> None:
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS / "kits")))
    command = ["soak.whole_system", "--gateways", "2", "--kills", "3", "--hold-ttl-s", "6", "--clients", "16"]
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=550,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["faults"] == report["overspends"] == 0
    assert report["documents_durable"] >= report["documents_delivered"] > 0
    assert report["kill_cycles"] == {"gateway": 1, "worker": 1, "redis": 1}
    assert report["submissions_by_end"]["accepted"] == sum(report["jobs_by_end"].values()) > 0
