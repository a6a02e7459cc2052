"""A process that ends before it is ready is started again, a limited number of times."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gpu_workers.fork_server import child_environment
from service.processes import child as child_module
from service.processes.child import STARTS_MAX, Child

pytestmark = pytest.mark.usefixtures("processes")

PROCESS = """
import os, sys, time
from service.processes.child import Lifeline
lifeline = Lifeline(int(sys.argv[1]))
with open(lifeline.order["file"], "a") as file:
    file.write(f"{os.getpid()}\\n")
if lifeline.order["ready"]:
    lifeline.report_ready()
    time.sleep(3600)
"""


def child(folder: Path, said: list[str], *, ready: bool) -> Child:
    (folder / "process_of_test.py").write_text(PROCESS)
    environment = child_environment() | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    order = {"file": str(folder / "pids"), "ready": ready}
    return Child("a process", "process_of_test", order, environment, say=said.append)


def pids(folder: Path) -> list[int]:
    file = folder / "pids"
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.usefixtures("processes")
def test_a_process_that_is_never_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        own = child(tmp_path, [], ready=False)
        own.start()
        await asyncio.wait_for(own.failed.wait(), 300)
        await own.stop(grace_s=60)

    monkeypatch.setattr(child_module, "DELAY_S", (0.01,))
    asyncio.run(main())
    assert len(pids(tmp_path)) == STARTS_MAX
