"""The process of one worker server: `python -m service.front_ends.worker_process LIFELINE PIPE`.

Its settings come in the order, so it needs none of the gateway's environment and no key of the gateway.
"""

from __future__ import annotations

import asyncio
import os
import sys

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.engine.remote.server import WorkerServer
from service.config.settings import Settings
from service.config.worker_options import worker_server
from service.front_ends.lifeline import Lifeline, watch


def main(fd: int, pipe: int) -> int:
    """`pipe`: held open by the supervisor and every front end."""
    order = Lifeline(fd).order
    os.set_inheritable(pipe, False)
    if not order:
        return 0  # the supervisor has ended meanwhile
    settings = Settings(**order["settings"])

    def make() -> WorkerServer:
        watch(pipe)
        return worker_server(settings, Role(order["role"]), order["listen"], device=order["device"])

    return asyncio.run(serve_until_signal(make, drain_s=settings.worker_drain_s))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
