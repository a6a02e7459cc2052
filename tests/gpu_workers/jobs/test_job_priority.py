"""A job's process comes after requests, as far as the operator says."""

import os
import subprocess
import sys

import pytest

SHOW = (
    "import os, sys; from gpu_workers.jobs.process import yield_to_requests; yield_to_requests(sys.argv[1]); "
    "print(os.sched_getscheduler(0), os.nice(0))"
)


@pytest.mark.parametrize(
    ("priority", "scheduler", "nicer"),
    [("idle", os.SCHED_IDLE, 0), ("low", os.SCHED_OTHER, 10), ("normal", os.SCHED_OTHER, 0)],
)
@pytest.mark.usefixtures("processes")
def test_what_a_priority_means(priority: str, scheduler: int, nicer: int) -> None:
    shown = subprocess.run([sys.executable, "-c", SHOW, priority], capture_output=True, text=True, check=True)
    assert [int(word) for word in shown.stdout.split()] == [scheduler, min(19, os.nice(0) + nicer)]
