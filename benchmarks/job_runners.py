"""What a job runner adds to a job: the time to its first progress, and the time until the gateway has a checkpoint.

    PYTHONPATH=. python -m benchmarks.job_runners

Both kinds of places run the same process, in turn. The runner is on this machine, over a Unix socket, so the figures
have no network in them. There is no ledger and no store: what a gateway does before and after is the same for both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.files.encrypted_file import encrypt, new_key
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.engine import StaticDirectory
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.job_runners.hosted import HostLimits
from gpu_workers.job_runners.kinds import JOB_SPECS, Machine, job_codec
from gpu_workers.job_runners.places import RemotePlaces
from gpu_workers.job_runners.server import JobRunnerServer
from gpu_workers.jobs.messages import Charge, JobOrder, Progress, ReportProgress
from gpu_workers.jobs.places import FilesChanged, LocalPlaces, Places

TOKEN = "a-token-of-this-benchmark"
ENTRY_POINT = "benchmarks.job_runners:run"


@dataclass(frozen=True)
class Spec:
    """`checkpoint_bytes`: what the job writes after its first progress."""

    checkpoint_bytes: int


def run(order: JobOrder, report: ReportProgress, _: Charge) -> dict[str, Any]:
    report("first", 0.1)
    encrypt(order.folder / "training", order.key, "training", os.urandom(order.spec.checkpoint_bytes))
    report("written", 0.9, {"step": time.time()})
    return {}


def serve(address: str, folder: str) -> None:
    def make() -> JobRunnerServer:
        limits = HostLimits(bytes_max=1 << 40, memory_bytes_max=0, is_full=lambda: False)
        own = Path(folder) / "runner"
        return JobRunnerServer(
            job_codec(), Access(TOKEN), listen=address, root=own, machine=Machine(), limits=limits, places=4
        )

    asyncio.run(serve_until_signal(make, drain_s=10))


def started(address: str, folder: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.job_runners", "--serve", address, folder]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


async def measured(places: Places, folder: Path, input_bytes: int, checkpoint_bytes: int) -> tuple[float, float]:
    """Seconds from the request of a place to the first progress, and from the written checkpoint to its message."""
    work = folder / os.urandom(8).hex()
    work.mkdir()
    key = new_key()
    encrypt(work / "input", key, "input", os.urandom(input_bytes))
    order = JobOrder(ENTRY_POINT, work, key, Spec(checkpoint_bytes), priority="normal")
    inbox: asyncio.Queue[Any] = asyncio.Queue()
    began = time.perf_counter()
    place = await places.take()
    process = place.start(order, seconds_max=600, on_message=inbox.put_nowait, on_death=lambda: inbox.put_nowait(None))
    first = 0.0
    while (message := await inbox.get()) is not None:
        if isinstance(message, FilesChanged):
            await asyncio.to_thread(message.apply)
        elif isinstance(message, Progress) and message.stage == "first":
            first = time.perf_counter() - began
        elif isinstance(message, Progress) and message.metrics:
            lag = time.time() - message.metrics["step"]
            break
    assert (work / "training").stat().st_size >= checkpoint_bytes
    process.kill()
    await process.stop()
    place.release()
    return first, lag


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="jobs-") as folder:
        address = f"unix:{folder}/socket"
        runner = started(address, folder)
        remote = RemotePlaces(
            StaticDirectory({"jobs": [address]}), job_codec(), Access(TOKEN), staging=Path(folder), bytes_max=1 << 40
        )
        await remote.start()
        kinds: dict[str, Places] = {"local": LocalPlaces(), "remote": remote}
        for input_mb, checkpoint_mb in ((1, 0), (100, 0), (1, 50)):
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
            for _ in range(rounds):
                for name, places in kinds.items():
                    found[name].append(await measured(places, Path(folder), input_mb << 20, checkpoint_mb << 20))
            for name, figures in found.items():
                firsts, lags = zip(*figures, strict=True)
                print(
                    f"input {input_mb} MB, checkpoint {checkpoint_mb} MB, {name}: first progress"
                    f" {statistics.median(firsts):.2f} s ({min(firsts):.2f} to {max(firsts):.2f}), checkpoint"
                    f" {statistics.median(lags):.2f} s ({min(lags):.2f} to {max(lags):.2f})"
                )
        await remote.stop()
        runner.terminate()
        runner.wait()


if __name__ == "__main__":
    # by its own name: the specification's class must be the one that a process imports
    from benchmarks import job_runners

    JOB_SPECS[ENTRY_POINT] = job_runners.Spec
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--serve", nargs=2)
    given = arguments.parse_args()
    if given.serve:
        job_runners.serve(*given.serve)
    else:
        asyncio.run(job_runners.main(given.rounds))
