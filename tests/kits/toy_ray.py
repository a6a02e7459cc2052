"""The worker server of a Ray replica in tests: a toy handler, in the Ray processes of a test."""

from __future__ import annotations

import engine_kit

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.server import WorkerServer


def toy_server(role: Role, listen: str) -> WorkerServer:
    """A server for `engine_kit.ToyHandler`."""
    access = Access(engine_kit.TOKEN, plain=True)
    return WorkerServer(role, engine_kit.ToyHandler, engine_kit.toy_codec(), access, listen=listen)
