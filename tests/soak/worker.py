"""Worker servers of the soak: real servers in front of a handler without a model, each killed and started again.

`python -m soak.worker ROLE ADDRESS`
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gateway_kit import free_port
from toys.toy_engine import FACTS, ToyEngine

from gpu_workers.engine.handler import Draw
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.engine.remote.server import WorkerServer
from gpu_workers.facts import WorkerFacts
from gpu_workers.handlers.wire import wire_codec

TOKEN = "token-of-the-soak"
WORK_S_MAX = 0.05


class SoakHandler:
    """Answers after a random moment, so that a kill meets batches before, during and after their work."""

    def __init__(self, role: Role) -> None:
        self._role = role

    def warm_up(self) -> WorkerFacts:
        return FACTS[self._role]

    def prepare(self, tasks: Sequence[Any]) -> Draw:
        def draw() -> list[Any]:
            time.sleep(random.uniform(0, WORK_S_MAX))
            return [ToyEngine.answer(task) for task in tasks]

        return draw


class Worker:
    """The process of a worker server."""

    def __init__(self, role: Role, log: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.setting = f"{role.value}={self.address}"
        self._role = role
        self._log = log
        self.start()

    def start(self) -> None:
        """Does not wait for it."""
        tests = Path(__file__).parents[1]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (tests.parent, tests, tests / "kits")))}
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "soak.worker", self._role.value, self.address]
            self._process = subprocess.Popen(command, stderr=log, stdout=log, env=environment)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def ready_times(self) -> int:
        """How often its handler has become ready, over all of its processes."""
        return self._log.read_text().count(": ready ")


def server(role: Role, listen: str) -> WorkerServer:
    return WorkerServer(role, partial(SoakHandler, role), wire_codec(), Access(TOKEN), listen=listen)


def main(role: str, listen: str) -> int:
    return asyncio.run(serve_until_signal(partial(server, Role(role), listen), drain_s=10))


if __name__ == "__main__":
    from soak import worker  # its classes have names that the handler's process can import

    sys.exit(worker.main(*sys.argv[1:]))
