"""The worker server of a Ray replica in tests: a toy handler, in the Ray processes of a test."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import engine_kit

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.object_cache import open_cache
from gpu_workers.engine.remote.object_server import WorkerFiles
from gpu_workers.engine.remote.server import WorkerServer
from gpu_workers.handlers.needed_files import NeededFiles


def toy_server(role: Role, listen: str) -> WorkerServer:
    """A server for `engine_kit.ToyHandler`."""
    access = Access(engine_kit.TOKEN, plain=True)
    cache = open_cache(Path(mkdtemp(prefix="toy-worker-")), role.value, bytes_max=1 << 20)
    files = WorkerFiles(cache, NeededFiles())
    return WorkerServer(role, engine_kit.ToyHandler, engine_kit.toy_codec(), access, listen=listen, files=files)
