"""The worker server of a Ray replica in tests: a toy handler, in the Ray processes of a test."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp

import engine_kit
from held_runner import held_server

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.cache_folders import open_cache
from gpu_workers.engine.remote.object_server import WorkerFiles
from gpu_workers.engine.remote.process import Server
from gpu_workers.engine.remote.server import WorkerServer
from gpu_workers.handlers.needed_files import NeededFiles


def toy_server(role: str, listen: str) -> Server:
    """A server for `engine_kit.ToyHandler`, or a job runner for `held_job`. While there is a file `unfit` in the folder
    of the jobs, a worker cannot start."""
    folder = Path(os.environ["TOY_RAY_JOBS"])
    if role == "jobs":
        return held_server(listen, folder / "job-runs", plain=True)
    handler = engine_kit.UnfitHandler if (folder / "unfit").exists() else engine_kit.ToyHandler
    access = Access(engine_kit.TOKEN, plain=True)
    cache = open_cache(Path(mkdtemp(prefix="toy-worker-")), role, bytes_max=1 << 20)
    files = WorkerFiles(cache, NeededFiles())
    return WorkerServer(Role(role), handler, engine_kit.toy_codec(), access, listen=listen, files=files)
