"""What a worker on another machine is sent: matrices with every batch or once, and a file of 50 MB.

    python -m benchmarks.worker_files

The worker is a process of this machine with the bundled encoder and one thread, over TCP. A matrix that is not frozen
is sent with every batch, as all of them were before they were brought by their content.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import call, ready, remote, servers
from core.files.file_version import FileVersion, file_digest
from core.mechanisms.vectors.projection import spec_projection
from core.mechanisms.vectors.spec import vector_spec
from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.constants import group_of_tenant
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.engine.remote.engine import RemoteEngine, StaticDirectory
from gpu_workers.handlers.tasks import EmbedTask, PublicProjection, VectorTask

TENANT = "benchmark"
ROUNDS = 200
DIMENSION, PROJECTED = 1536, 768
FILE_BYTES = 50_000_000


class Counted:
    """A stream that counts the bytes of the messages that are written to it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def write(self, message: bytes) -> None:
        self.sent += len(message)
        await self._stream.write(message)


def counted(engine: RemoteEngine) -> list[Counted]:
    """The streams for batches that the engine opens from now on."""
    streams: list[Counted] = []
    (pool,) = engine._pools.values()
    (replica,) = pool._replicas.values()
    opened = replica.open_stream

    def open_stream() -> Counted:
        streams.append(Counted(opened()))
        return streams[-1]

    replica.open_stream = open_stream  # type: ignore[method-assign]
    return streams


async def releases(address: str, rows: int, *, frozen: bool) -> None:
    spec = vector_spec(
        mechanism="privemb", dimension=DIMENSION, epsilon=10, projection="orthonormal", output_dimension=PROJECTED
    )
    made = spec_projection(spec, tenant=TENANT)
    if made is None:
        raise TypeError("no projection")
    engine = remote(StaticDirectory({Role.EMBED: [address]}))
    await ready(engine, 1)
    streams = counted(engine)

    def placed(matrix: np.ndarray[Any, Any]) -> BlockArray:
        shape = matrix.shape[0], matrix.shape[1]
        array = BlockArray(engine.arrays.block(matrix.nbytes), str(matrix.dtype), shape)
        array.write_rows(np.ascontiguousarray(matrix), 0)
        return array

    matrix = placed(made.matrix)
    if frozen:
        matrix.block.freeze(group_of_tenant(TENANT))
    projection = PublicProjection(matrix, made.spectral_norm_bound)
    times = []
    for number in range(ROUNDS + 1):
        vectors = placed(np.ones((rows, DIMENSION), np.float32))
        released = BlockArray(engine.arrays.block(rows * PROJECTED * 4), "float32", (rows, PROJECTED))
        began = time.perf_counter()
        await call(engine, VectorTask(spec, TENANT, released, vectors=vectors, projection=projection))
        if number:  # the first one loads the mechanism
            times.append((time.perf_counter() - began) * 1000)
        else:
            before = sum(stream.sent for stream in streams)
    sent = (sum(stream.sent for stream in streams) - before) / ROUNDS
    how = "sent once" if frozen else "with every batch"
    print(
        f"{rows:5} vectors of {DIMENSION}, a projection of {matrix.nbytes / 1e6:.1f} MB {how}: "
        f"{sent / 1e3:9.1f} kB and {statistics.median(times):6.1f} ms a batch"
    )
    await engine.stop()


async def file(address: str, folder: Path) -> None:
    path = folder / "pack.safetensors"
    times = []
    for _ in range(5):
        path.write_bytes(os.urandom(FILE_BYTES))
        pack = FileVersion(str(path), file_digest(path))
        engine = remote(StaticDirectory({Role.EMBED: [address]}))
        await ready(engine, 1)
        task = Task(EmbedTask(("text",), None, "sentence_codes", "own", 10**9, pack=pack), 1)
        began = time.perf_counter()
        await engine.prepare(Role.EMBED, [task], timeout_s=60)
        times.append(time.perf_counter() - began)
        await engine.stop()
    print(f"{FILE_BYTES / 1e6:.0f} MB brought to a worker: {statistics.median(times):.2f} s")


def main() -> None:
    os.environ["PYTHONPATH"] = str(Path.cwd())  # the handlers of the workers are in this package
    with servers("embed", 1) as (address,), tempfile.TemporaryDirectory() as folder:
        for rows in (1, 1000):
            for frozen in (False, True):
                asyncio.run(releases(address, rows, frozen=frozen))
        asyncio.run(file(address, Path(folder)))


if __name__ == "__main__":
    main()
