"""Serves a real gateway whose engine answers after a random moment, without a model: it starts in a few seconds.

`python tests/soak/serve.py serve --port PORT --data-dir DIR`
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toys.toy_engine import ToyEngine

from gpu_workers.engine.protocol import Role, Task
from service.config.settings import Settings
from service.serve import run

WORK_S_MAX = 0.05


class WaitingEngine(ToyEngine):
    """A kill meets requests before, during and after their work."""

    async def run(self, role: Role, tasks: Sequence[Task], **options: Any) -> list[Any]:
        found = await super().run(role, tasks, **options)
        await asyncio.sleep(random.uniform(0, WORK_S_MAX))
        return found


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("command", choices=["serve"])
    arguments.add_argument("--port", type=int)
    arguments.add_argument("--data-dir", type=Path)
    given = arguments.parse_args()
    run(Settings(port=given.port, data_dir=given.data_dir), engine=WaitingEngine())


if __name__ == "__main__":
    main()
