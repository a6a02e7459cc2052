"""Short runs of `make soak`: gateways, workers and Redis are killed under load, and nothing is under-counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent


def soak(*command: str) -> dict[str, Any]:
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS / "kits")))
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        timeout=550,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["faults"] == 0
    assert report["documents_durable"] >= report["documents_delivered"] > 0
    return report


@pytest.mark.slow("crash")
def test_a_short_soak_finds_no_fault() -> None:
    soak("soak.kill_cycles", "--cycles", "3", "--hold-ttl-s", "10")


@pytest.mark.slow("crash")
def test_a_short_soak_of_two_gateways_on_one_ledger_finds_no_fault() -> None:
    report = soak("soak.several_gateways", "--gateways", "2", "--kills", "2", "--hold-ttl-s", "6")
    assert report["kills"] == 2
    assert report["overspends"] == 0


@pytest.mark.slow("crash")
def test_a_short_soak_of_the_whole_system_finds_no_fault() -> None:
    report = soak("soak.whole_system", "--gateways", "2", "--kills", "3", "--hold-ttl-s", "6", "--clients", "16")
    assert report["kill_cycles"] == {"gateway": 1, "store": 1, "worker": 1}
    assert report["submissions_by_end"]["accepted"] == sum(report["jobs_by_end"].values()) > 0
