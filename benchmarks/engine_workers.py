"""Worker servers for `benchmarks.engines`: `python -m benchmarks.engine_workers KIND ADDRESS`.

Kinds: `embed` is the real worker with one thread; `copy` answers with the vectors that it gets; `sleep` simulates a
device that takes a fixed time for a batch and no processor.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.cache_folders import open_cache
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.object_server import WorkerFiles
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.engine.remote.server import WorkerServer
from gpu_workers.facts import EmbedderFacts, EncoderFacts
from gpu_workers.handlers.needed_files import NeededFiles
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.registry import make_handler
from gpu_workers.handlers.wire import TABLE

TOKEN = "token-of-the-benchmark"
SLEEP_S = 0.05
FACTS = EmbedderFacts(EncoderFacts("none", "", 1, 1, "cpu", "float32", False, False), (), (), (), None, "sentence")


@dataclass(frozen=True)
class Copy:
    """The worker writes `vectors` to `released`."""

    vectors: BlockArray
    released: BlockArray

    @property
    def blocks(self) -> list[Any]:
        return [self.vectors.block, self.released.block]


@dataclass(frozen=True)
class Sleep:
    number: int


class Simulated:
    """Handler of `Copy` and `Sleep`."""

    def warm_up(self) -> EmbedderFacts:
        return FACTS

    def prepare(self, tasks: Sequence[Copy | Sleep]) -> Any:
        def draw() -> list[int]:
            for task in tasks:
                if isinstance(task, Copy):
                    task.released.write_rows(task.vectors.read(), 0)
            if isinstance(tasks[0], Sleep):
                time.sleep(SLEEP_S)
            return [0] * len(tasks)

        return draw


def factory(kind: str) -> HandlerFactory:
    if kind == "embed":
        return partial(make_handler, Role.EMBED, WorkerOptions(threads=1))
    return Simulated


def codec() -> Codec:
    return Codec((*TABLE, Copy, Sleep))


def server(kind: str, listen: str) -> WorkerServer:
    cache = open_cache(Path(tempfile.mkdtemp(prefix="worker-files-")), kind, bytes_max=1 << 30)
    files = WorkerFiles(cache, NeededFiles())
    return WorkerServer(Role.EMBED, factory(kind), codec(), Access(TOKEN, plain=True), listen=listen, files=files)


def embed_server(role: Role, listen: str) -> WorkerServer:
    """For `privacy-gateway workers start --server`. Every role has the same handler."""
    del role
    return server("embed", listen)


def simulated_server(role: Role, listen: str) -> WorkerServer:
    """As `embed_server`."""
    del role
    return server("sleep", listen)


def main(kind: str, listen: str) -> int:
    return asyncio.run(serve_until_signal(partial(server, kind, listen), drain_s=10))


if __name__ == "__main__":
    from benchmarks import engine_workers  # its classes have names that the handler's process can import

    sys.exit(engine_workers.main(*sys.argv[1:]))
