"""A job that allocates more than it may fails with a reason; it neither dies nor takes the machine's memory."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from engine_kit import find_kits

from gpu_workers.fork_server import ChildProcess, end_fork_server, start_fork_server
from gpu_workers.jobs.protocol import Failed, JobOrder, Succeeded
from service.jobs.attempt import PRELOAD

LIMIT_BYTES = 1024 * 1024 * 1024


def ended(folder: Path, function: str, *, memory_bytes_max: int = LIMIT_BYTES) -> Any:
    """The last message of a job's process that runs this function of `hungry_kit`."""

    async def run() -> Any:
        messages: asyncio.Queue[Any] = asyncio.Queue()
        order = JobOrder(
            f"hungry_kit:{function}", folder, b"", None, priority="normal", memory_bytes_max=memory_bytes_max
        )
        process = ChildProcess(
            "gpu_workers.jobs.process",
            first=order,
            on_message=messages.put_nowait,
            on_death=lambda: messages.put_nowait(None),
            preload=PRELOAD,
        )
        try:
            return await asyncio.wait_for(messages.get(), 300)
        finally:
            process.kill()
            await process.stop()

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def _kits(processes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    find_kits(monkeypatch)


OTHERS = [pytest.param(name, marks=pytest.mark.slow("process")) for name in ("with_numpy", "with_python")]


@pytest.mark.parametrize("function", ["with_torch", *OTHERS])
def test_too_much_memory_is_a_failure_with_its_reason(tmp_path: Path, function: str) -> None:
    outcome = ended(tmp_path, function)
    assert isinstance(outcome, Failed)
    assert outcome.problem.reason == "out-of-memory"


def test_a_job_within_the_limit_runs(tmp_path: Path) -> None:
    outcome = ended(tmp_path, "modest")
    assert isinstance(outcome, Succeeded)
    assert outcome.result == {"sum": 512.0**3}


def test_a_limit_below_what_the_fork_server_has_loaded_holds_for_what_the_job_adds(tmp_path: Path) -> None:
    start_fork_server(PRELOAD)
    try:
        outcome = ended(tmp_path, "with_torch", memory_bytes_max=128 * 1024 * 1024)
    finally:
        end_fork_server()
    assert isinstance(outcome, Failed)
    assert outcome.problem.reason == "out-of-memory"


def test_another_fault_is_not_taken_for_it(tmp_path: Path) -> None:
    outcome = ended(tmp_path, "other_fault")
    assert isinstance(outcome, Failed)
    assert (outcome.problem.reason, "row" in outcome.problem.detail) == ("runtimeerror", False)
