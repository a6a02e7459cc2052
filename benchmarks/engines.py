"""The engines side by side: processes of this machine, worker servers over gRPC, and worker servers on Ray Serve.

    python -m benchmarks.engines
    unshare --net --pid --fork --mount-proc --kill-child sh -c 'ip link set lo up && python -m benchmarks.engines --ray'

The callers are in this process, without HTTP and ledger, so the processor time of the front end is that of the engine.
Each engine has two embed workers of one thread with the bundled encoder. They are measured in turn, several times. The
second command starts a Ray cluster beside it. Then: arrays of 154 MB, copied and released, and simulated workers, which
sleep for a fixed time for each batch: that shows what the control of the workers costs, and nothing about devices.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine_workers import TOKEN, Copy, Sleep, codec, factory
from core.mechanisms.vectors.spec import vector_spec
from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.local.engine import LocalEngine
from gpu_workers.engine.local.worker_pool import WorkerPoolOptions
from gpu_workers.engine.protocol import Engine, Role, Task
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.directory import HttpDirectory
from gpu_workers.engine.remote.engine import Directory, RemoteEngine, StaticDirectory
from gpu_workers.engine.remote.object_sender import Needs
from gpu_workers.engine.remote.pool import RemotePoolOptions
from gpu_workers.engine.task_queue import QueueLimits
from gpu_workers.handlers.needed_files import files_of
from gpu_workers.handlers.tasks import EmbedTask, VectorTask

BIN = Path(sys.executable).parent
SENTENCES = tuple(
    f"The committee will meet again on day {n} to discuss the proposal of the members who were late." for n in range(6)
)
CALLERS = 64
ROWS, COLUMNS = 100_000, 384
DIRECTORY = "http://127.0.0.1:8000"


def addresses(count: int) -> list[str]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    return found


@contextmanager
def servers(kind: str, count: int) -> Iterator[list[str]]:
    own = addresses(count)
    started = [
        subprocess.Popen([sys.executable, "-m", "benchmarks.engine_workers", kind, address], stderr=subprocess.DEVNULL)
        for address in own
    ]
    try:
        yield own
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def ray_cluster() -> Iterator[None]:
    """A Ray cluster of one node. It ends with the namespace of processes."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0", "OMP_NUM_THREADS": "1"}
    os.environ |= {"PRIVACY_GATEWAY_WORKERS_TOKEN": TOKEN}
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="ray-") as folder:
        options = ["--head", "--include-dashboard=false", "--num-cpus=8", "--object-store-memory=100000000"]
        options += ["--node-ip-address=127.0.0.1", f"--temp-dir={folder}", "--disable-usage-stats"]
        quiet(str(BIN / "ray"), "start", *options)
        ray_workers(2, "embed_server")
        yield


def ray_workers(count: int, server: str) -> None:
    role = f"--role=embed={count},0.1"
    quiet(str(BIN / "privacy-gateway"), "workers", "start", role, f"--server=benchmarks.engine_workers:{server}")


def quiet(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def local(kind: str, count: int) -> LocalEngine:
    return LocalEngine({Role.EMBED: WorkerPoolOptions(workers=[factory(kind)] * count)})


def remote(directory: Directory, limits: QueueLimits | None = None) -> RemoteEngine:
    options = RemotePoolOptions(limits=limits or QueueLimits())
    access = Access(TOKEN, plain=True)
    return RemoteEngine({Role.EMBED: options}, directory, codec(), access, needs=Needs(files_of))


async def ready(engine: Engine, count: int) -> None:
    await engine.start()
    while not engine.status(Role.EMBED).ready or workers(engine) < count:  # noqa: ASYNC110 - an engine has no event for it
        await asyncio.sleep(0.05)


def workers(engine: Any) -> int:
    """The number of workers that are ready."""
    (pool,) = engine._pools.values()
    return sum(one.ready for one in (pool._slots if isinstance(engine, LocalEngine) else pool._replicas.values()))


async def call(engine: Engine, *payloads: Any, weight: int | None = None) -> None:
    tasks = [Task(payload, weight or payload.weight) for payload in payloads]
    await engine.run(Role.EMBED, tasks, tenant="one", timeout_s=600, client_disconnected=asyncio.Event())


def document() -> EmbedTask:
    return EmbedTask(SENTENCES, None, "sentence_codes", "general", 10**9)


async def throughput(engine: Engine, seconds: float, make: Callable[[], Any]) -> tuple[float, float]:
    """Documents a second, and milliseconds of this process for each."""
    done = 0
    end = time.monotonic() + seconds

    async def caller() -> None:
        nonlocal done
        while time.monotonic() < end:
            await call(engine, make(), weight=200)
            done += 1

    began, used = time.monotonic(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return done / (time.monotonic() - began), (time.process_time() - used) / done * 1000


async def latencies(engines: dict[str, Engine], calls: int) -> dict[str, float]:
    """The median milliseconds of one call at a time. The engines take turns, so that other work on the machine
    disturbs all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(calls):
        for name, engine in engines.items():
            began = time.perf_counter()
            await call(engine, document())
            times[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(own) for name, own in times.items()}


async def compared(engines: dict[str, Engine], rounds: int, seconds: float) -> None:
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    for engine in engines.values():
        await ready(engine, 2)
        await throughput(engine, 2, document)
    for _ in range(rounds):
        for name, engine in engines.items():
            rows[name].append(await throughput(engine, seconds, document))
    p50 = await latencies(engines, 200)
    base = [statistics.median(column) for column in zip(*rows["local"], strict=True)]
    print(f"{'engine':8} {'doc/s':>8} {'ratio':>6} {'CPU ms/doc':>11} {'p50 ms':>8} {'added':>7}   ratio of each round")
    for name, own in rows.items():
        rate, cpu = (statistics.median(column) for column in zip(*own, strict=True))
        each = [f"{mine[0] / other[0]:.2f}" for mine, other in zip(own, rows["local"], strict=True)]
        calls = f"{p50[name]:8.1f} {p50[name] - p50['local']:7.1f}"
        print(f"{name:8} {rate:8.1f} {rate / base[0]:6.2f} {cpu:11.2f} {calls}   {' '.join(each)}")
    for engine in engines.values():
        await engine.stop()


def released_vectors(vectors: BlockArray, released: BlockArray) -> VectorTask:
    spec = vector_spec(mechanism="laplace", dimension=COLUMNS, epsilon=10)
    return VectorTask(spec, "benchmark", released, vectors=vectors)


async def arrays(engine: Engine, rounds: int, task: Callable[[BlockArray, BlockArray], Any]) -> float:
    """The median seconds for 154 MB to a worker and back."""
    await ready(engine, 1)
    size = ROWS * COLUMNS * 4
    times = []
    for _ in range(rounds):
        vectors, released = (BlockArray(engine.arrays.block(size), "float32", (ROWS, COLUMNS)) for _ in range(2))
        vectors.write_rows(np.ones((ROWS, COLUMNS), np.float32), 0)
        began = time.perf_counter()
        await call(engine, task(vectors, released), weight=1)
        times.append(time.perf_counter() - began)
        assert released.read()[-1, -1]
        del vectors, released
    await engine.stop()
    return statistics.median(times)


async def simulated(engine: Engine, count: int, seconds: float) -> float:
    await ready(engine, count)
    rate, _ = await throughput(engine, seconds, lambda: Sleep(0))
    await engine.stop()
    return rate


def scaling(make: Callable[[int], Any], seconds: float, name: str) -> None:
    one = 0.0
    for count in (1, 2, 4, 8):
        with make(count) as directory:
            limits = QueueLimits(batch_tokens_max=200)  # one document for each batch
            rate = asyncio.run(simulated(remote(directory, limits), count, seconds))
        one = one or rate
        print(f"{name}: {count} simulated workers {rate:7.1f} documents/s, {rate / one / count:.2f} of linear")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", action="store_true", help="also on Ray Serve; in namespaces of its own")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    given = parser.parse_args(arguments)
    os.environ["PYTHONPATH"] = str(Path.cwd())  # the handlers of the workers are in this package

    async def documents(found: list[str]) -> None:
        engines: dict[str, Engine] = {
            "local": local("embed", 2),
            "remote": remote(StaticDirectory({Role.EMBED: found})),
        }
        if given.ray:
            engines["ray"] = remote(HttpDirectory(DIRECTORY, Access(TOKEN, plain=True)))
        await compared(engines, given.rounds, given.seconds)

    @contextmanager
    def plain(count: int) -> Iterator[Directory]:
        with servers("sleep", count) as found:
            yield StaticDirectory({Role.EMBED: found})

    @contextmanager
    def on_ray(count: int) -> Iterator[Directory]:
        ray_workers(count, "simulated_server")
        yield HttpDirectory(DIRECTORY, Access(TOKEN, plain=True))

    def measure() -> None:
        with servers("embed", 2) as found:
            asyncio.run(documents(found))
        for kind, task, what in (("copy", Copy, "copied"), ("embed", released_vectors, "released by `laplace`")):
            with servers(kind, 1) as found:
                there = asyncio.run(arrays(remote(StaticDirectory({Role.EMBED: found})), given.rounds, task))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            beside = asyncio.run(arrays(local(kind, 1), given.rounds, task))
            size = ROWS * COLUMNS * 4 / 1e6
            print(f"{size:.0f} MB {what}: local {beside:.2f} s, remote {there:.2f} s, {there / beside:.1f} times; the "
                  f"front end's memory was at most {peak:.0f} MB with two blocks of {size:.0f} MB")  # fmt: skip
        scaling(plain, given.seconds, "remote")
        if given.ray:
            scaling(on_ray, given.seconds, "ray")

    if given.ray:
        with ray_cluster():
            measure()
    else:
        measure()


if __name__ == "__main__":
    main()
