"""A worker server whose handler is a toy of `engine_kit`: `python toy_worker.py ROLE FACTORY ADDRESS [SLOT_S]`."""

from __future__ import annotations

import asyncio
import sys

import engine_kit

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.process import serve_until_told
from gpu_workers.engine.remote.server import WorkerServer


def main(role: str, factory: str, address: str, slot_s: str = "5", batch_s: str = "120") -> int:
    def make() -> WorkerServer:
        return WorkerServer(
            Role(role),
            getattr(engine_kit, factory),
            engine_kit.toy_codec(),
            Access(engine_kit.TOKEN),
            listen=address,
            slot_s=float(slot_s),
            batch_seconds_max=float(batch_s),
        )

    return asyncio.run(serve_until_told(make, drain_s=60))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
