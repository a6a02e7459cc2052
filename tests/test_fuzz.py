"""A short run of `make fuzz`: no unhandled error, and no canary where none may be.

Stalls and memory are left to the whole campaign: beside other tests a gateway waits for the processor.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.slow("fuzzing")
@pytest.mark.timeout(300)
def test_a_short_campaign_finds_no_error_and_no_text() -> None:
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS / "kits")))
    command = [sys.executable, "-m", "fuzz.campaign", "--requests", "1000", "--warm-up", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=os.environ | {"PYTHONPATH": path})
    lines = done.stdout.splitlines()
    assert lines, done.stderr[-3000:]
    report = json.loads(lines[-1])
    assert report["requests"] >= 1000
    found = set(report["findings"]) & {"unhandled error", "echoed canary", "canary kept"}
    assert not found, "\n".join(line for line in lines if line.startswith("FINDING"))
