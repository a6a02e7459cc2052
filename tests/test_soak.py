"""A short run of `make soak`: a worker and Redis are killed under load, and nothing is under-counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.slow("crash")
def test_a_short_soak_finds_no_fault() -> None:
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS / "kits")))
    command = [sys.executable, "-m", "soak.kill_cycles", "--cycles", "3"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=170, env=os.environ | {"PYTHONPATH": path})

    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["faults"] == 0
    assert report["documents_durable"] >= report["documents_delivered"] > 0
