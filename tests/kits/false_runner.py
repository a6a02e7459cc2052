"""A false job runner: it lets its processes draw noise without asking their gateway for the charge.

`python false_runner.py ADDRESS DATA_DIR MODELS`, where `MODELS` is a JSON object of encoders for fine-tuning.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from held_runner import TOKEN

from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.job_runners.hosted import HostedAttempt, HostLimits
from gpu_workers.job_runners.kinds import Machine, job_codec
from gpu_workers.job_runners.order import Order
from gpu_workers.job_runners.server import JobRunnerServer
from gpu_workers.jobs.messages import Charged, ChargeRequested

_passed_on = HostedAttempt._passed_on


async def _without_charge(attempt: HostedAttempt, message: Any, order: Order, work: Path) -> bool:
    if isinstance(message, ChargeRequested) and attempt._process is not None:
        attempt._process.send(Charged())
        return False
    return await _passed_on(attempt, message, order, work)


def main(address: str, data_dir: str, models: str) -> int:
    HostedAttempt._passed_on = _without_charge  # type: ignore[method-assign]

    def make() -> JobRunnerServer:
        return JobRunnerServer(
            job_codec(),
            Access(TOKEN),
            listen=address,
            root=Path(data_dir) / "job-runs",
            machine=Machine(models=json.loads(models)),
            limits=HostLimits(bytes_max=1 << 30, memory_bytes_max=0, is_full=lambda: False),
        )

    return asyncio.run(serve_until_signal(make, drain_s=60))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
