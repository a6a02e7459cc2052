"""The process of one worker server: `python -m service.front_ends.worker_process LIFELINE`.

Its settings come in the order, so it needs none of the gateway's environment and no key of the gateway.
"""

from __future__ import annotations

import asyncio
import sys

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.engine.remote.server import WorkerServer
from service.config.settings import Settings
from service.config.worker_options import worker_server
from service.front_ends.lifeline import Lifeline


def main(fd: int) -> int:
    lifeline = Lifeline(fd)
    order = lifeline.order
    if not order:
        return 0  # the supervisor has ended meanwhile
    settings = Settings(**order["settings"])

    def make() -> WorkerServer:
        lifeline.watch()
        return worker_server(settings, Role(order["role"]), order["listen"], device=order["device"])

    return asyncio.run(serve_until_signal(make, drain_s=settings.worker_drain_s))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
