"""Starts the process of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_workers.child_process import ChildProcess
from gpu_workers.jobs.messages import JobOrder

MODULE = "gpu_workers.jobs.process"
PRELOAD = ("torch",)  # of a fork server: every kind of job uses it


def start_job(order: JobOrder, *, on_message: Callable[[Any], None], on_death: Callable[[], None]) -> ChildProcess:
    """Start a process that runs one attempt at a job. It receives `Charged`."""
    return ChildProcess(MODULE, first=order, on_message=on_message, on_death=on_death, preload=PRELOAD)
