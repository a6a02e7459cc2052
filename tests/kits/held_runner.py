"""A job runner that knows the held kind: `python held_runner.py ADDRESS DATA_DIR PLACES DIGEST`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import held_job

from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.job_runners.hosted import HostLimits
from gpu_workers.job_runners.kinds import Machine, job_codec
from gpu_workers.job_runners.server import JobRunnerServer

TOKEN = "toy-token-of-the-workers"  # that of `engine_kit`, which is not imported: it takes a second


def held_server(
    listen: str, root: Path, *, places: int = 1, content: str = "", plain: bool = False, bytes_max: int = 1 << 30
) -> JobRunnerServer:
    held_job.add_kind()
    return JobRunnerServer(
        job_codec(),
        Access(TOKEN, plain=plain),
        listen=listen,
        root=root,
        machine=Machine(device="the runner's"),
        limits=HostLimits(bytes_max=bytes_max, memory_bytes_max=0, is_full=lambda: (root.parent / "full").exists()),
        places=places,
        content=content,
    )


def main(address: str, data_dir: str, places: str, content: str) -> int:
    def make() -> JobRunnerServer:
        return held_server(address, Path(data_dir) / "job-runs", places=int(places), content=content)

    return asyncio.run(serve_until_signal(make, drain_s=60))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
