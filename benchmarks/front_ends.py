"""Several front ends of one gateway: documents a second by their number, with a simulated worker that costs nothing.

    python -m benchmarks.front_ends

For each number, a `privacy-gateway serve --processes N` of its own, with the embedded Redis and an fsync on each write.
The worker server answers each document with a constant vector, so what is measured is the front ends, the ledger and
the transport. Rounds of all numbers take turns. Clients, Redis and worker use the same cores as the front ends: the
processor time of each is printed, which says what limits.

`--share .2` gives each front end that share of a core by a cgroup (as root, on Linux with cgroup v1). Then the cores
are never all in use, and the growth shows whether the front ends wait for one another.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.text.policy import Sanitised
from core.text.spans import Span, Spans
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.engine.remote.server import WorkerServer
from gpu_workers.facts import EmbedderFacts, EncoderFacts, SanitiserFacts, WordVectorFacts
from gpu_workers.handlers.tasks import EmbedRelease
from gpu_workers.handlers.wire import wire_codec

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests/kits"))
from gateway_kit import DOCUMENT, Gateway, Tenant, children, cpu_ticks, free_port  # noqa: E402

TOKEN = "token-of-the-benchmark"
FRONT_END = "service.front_ends.front_end_process"
TICKS = os.sysconf("SC_CLK_TCK")
FACTS = EmbedderFacts(
    EncoderFacts("none", "none", 384, 256, "cpu", "float32", False, False), ("general",), ("sentence_codes",), (), None,
    "sentence",
)  # fmt: skip
SANITISER_FACTS = SanitiserFacts(
    ("all",), ("marker",), None, WordVectorFacts(0, 0), (), None, (), (), {}, (), {},
)  # fmt: skip
VECTOR = np.full(384, 384**-0.5, dtype=np.float32)
CPU = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 20_000
CONNECT_S = 1.5
WARM_S = 1.0


class Simulated:
    """A handler of the embed role that costs nothing. Its answers are independent of the documents."""

    def warm_up(self) -> EmbedderFacts:
        return FACTS

    def prepare(self, tasks: Sequence[Any]) -> Any:
        return lambda: [EmbedRelease(VECTOR, "encoder") for _ in tasks]


class Masking:
    """The same of the sanitise role, which the gateway's readiness asks."""

    def warm_up(self) -> SanitiserFacts:
        return SANITISER_FACTS

    def prepare(self, tasks: Sequence[Any]) -> Any:
        answer = Sanitised("[TOY]", Spans.of([Span(0, 5, "WORD", "all")]), masked_tokens=1, tokens=1)
        return lambda: [answer for _ in tasks]


def worker(role: Role, listen: str) -> int:
    def make() -> WorkerServer:
        factory = Simulated if role is Role.EMBED else Masking
        return WorkerServer(role, factory, wire_codec(), Access(TOKEN), listen=listen)

    return asyncio.run(serve_until_signal(make, drain_s=10))


def python_path(*folders: Path) -> str:
    """These folders before those that this process was given."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


@contextmanager
def simulated_workers(root: Path = ROOT, embedding: int = 1) -> Iterator[tuple[list[str], list[int]]]:
    """Their addresses by role, and the process ids of the `embedding` ones of the embed role. `root`: the checkout
    whose code they run, which must be that of the gateway."""
    listed = [(role, f"127.0.0.1:{free_port()}") for role in (Role.EMBED,) * embedding + (Role.SANITIZE,)]
    environment = os.environ | {"PYTHONPATH": python_path(root)}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.front_ends", "--worker", role.value, address],
            cwd=root,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        for role, address in listed
    ]
    try:
        yield [f"{role.value}={address}" for role, address in listed], [one.pid for one in started[:embedding]]
    finally:
        for process in started:
            process.kill()
            process.wait()


class Served(Gateway):
    """`serve --processes N`; one is a gateway without a supervisor."""

    def __init__(self, data_dir: Path, processes: int, workers: Sequence[str]) -> None:
        self.processes = processes
        self.admin_port = free_port()
        environment = {
            "PRIVACY_GATEWAY_PROCESSES": str(processes),
            "PRIVACY_GATEWAY_ADMIN_PORT": str(self.admin_port),
            "PRIVACY_GATEWAY_ENGINE": "remote",
            "PRIVACY_GATEWAY_WORKERS": json.dumps(list(workers)),
            "PRIVACY_GATEWAY_WORKERS_TOKEN": TOKEN,
        }
        super().__init__(data_dir, environment)

    @property
    def admin(self) -> Any:
        client = super().admin
        client.base_url = f"http://127.0.0.1:{self.admin_port}"
        return client

    def wait_ready(self) -> None:
        super().wait_ready()
        while len(self.front_ends()) < self.processes or not all(map(self.answers, range(self.processes))):
            time.sleep(0.2)

    def answers(self, number: int) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.admin_port + number, timeout=15)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def front_ends(self) -> list[int]:
        if self.processes == 1:
            return [self.process.pid]
        return [pid for pid, line in children(self.process.pid).items() if FRONT_END in line]


@dataclass(frozen=True)
class Round:
    """Documents a second, and milliseconds of processor time for each request."""

    rate: float
    front_ends: float
    redis: float
    worker: float
    clients: float
    busiest: float  # share of the requests that the busiest front end answered, by its processor time


@dataclass(frozen=True)
class Seen:
    """What was done, and the processor time that each process had used."""

    done: int
    at: float
    ticks: dict[int, int]
    own: float


async def drive(port: int, request: bytes, pids: Sequence[int], options: argparse.Namespace) -> tuple[Seen, Seen]:
    """Clients that each send the next request when the last was answered. They connect one after the other, as clients
    do. What was seen after the time for warming up, and at the end."""
    done = 0

    async def client(delay_s: float) -> None:
        nonlocal done
        await asyncio.sleep(delay_s)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                if b" 200 " not in head[:16]:
                    raise RuntimeError(head.decode())
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                done += 1
        finally:
            writer.close()

    def seen() -> Seen:
        return Seen(done, time.monotonic(), {pid: cpu_ticks(pid) for pid in pids}, time.process_time())

    clients = [asyncio.create_task(client(n * CONNECT_S / options.clients)) for n in range(options.clients)]
    await asyncio.sleep(CONNECT_S + WARM_S)
    first = seen()
    await asyncio.wait(clients, timeout=options.seconds, return_when=asyncio.FIRST_EXCEPTION)
    last = seen()
    for one in clients:
        one.cancel()
    for ended in await asyncio.gather(*clients, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
    return first, last


def measured(gateway: Served, request: bytes, documents: int, servers: list[int], options: argparse.Namespace) -> Round:
    front_ends = gateway.front_ends()
    redis = gateway.pid_of("redis-server")
    workers = [pid for server in servers for pid in (server, *children(server))]
    first, last = asyncio.run(drive(gateway.port, request, (*front_ends, redis, *workers), options))
    done = last.done - first.done
    used = {pid: (ticks - first.ticks[pid]) / TICKS * 1000 / done for pid, ticks in last.ticks.items()}
    each = [used[pid] for pid in front_ends]
    return Round(
        done * documents / (last.at - first.at),
        sum(each),
        used[redis],
        sum(used[pid] for pid in workers),
        (last.own - first.own) * 1000 / done,
        max(each) / sum(each),
    )


@contextmanager
def limited(gateway: Served, share: float | None) -> Iterator[None]:
    """Each front end has this share of a core."""
    folders = []
    for pid in gateway.front_ends() if share else ():
        folder = CPU / f"front-end-{pid}"
        folder.mkdir()
        folders.append(folder)
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * share)))
        (folder / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        for folder in folders:
            for pid in (folder / "cgroup.procs").read_text().split():
                (CPU / "cgroup.procs").write_text(pid)
            folder.rmdir()


def request_of(tenant: Tenant, documents: int) -> bytes:
    body = json.dumps({"documents": [{"text": DOCUMENT}] * documents, "epsilon": 0.1}).encode()
    head = f"POST /embed/sentdp HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {tenant.key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def compared(options: argparse.Namespace, folder: Path) -> None:
    """One table for each number of documents in a request. All gateways run; they are measured in turn."""
    with simulated_workers(embedding=options.workers) as (workers, servers), ExitStack() as stack:
        gateways: dict[Served, Tenant] = {}
        for number in options.processes:
            gateway = Served(folder / str(number), number, workers)
            stack.callback(gateway.stop)
            gateways[gateway] = gateway.tenant(epsilon=4_000_000)
            stack.enter_context(limited(gateway, options.share))
        for documents in options.documents:
            rows: dict[int, list[Round]] = {number: [] for number in options.processes}
            for _ in range(options.rounds):
                for gateway, tenant in gateways.items():
                    request = request_of(tenant, documents)
                    rows[gateway.processes].append(measured(gateway, request, documents, servers, options))
            show(options, documents, rows)


def show(options: argparse.Namespace, documents: int, rows: dict[int, list[Round]]) -> None:
    share = f", each front end has {options.share:g} of a core" if options.share else ""
    print(f"\n{documents} documents in a request, {options.clients} clients, {options.rounds} rounds{share}")
    print(
        "| N | documents/s | ratio / N | front ends, ms a request | Redis | worker | clients | all | busiest | rounds |"
    )
    base = statistics.median(one.rate for one in rows[options.processes[0]]) / options.processes[0]
    names = ("front_ends", "redis", "worker", "clients")
    for number, own in rows.items():
        rate = statistics.median(one.rate for one in own)
        cpu = [statistics.median(getattr(one, name) for one in own) for name in names]
        busiest = statistics.median(one.busiest for one in own)
        used = " | ".join(f"{each:.2f}" for each in (*cpu, sum(cpu)))
        rounds = ", ".join(f"{one.rate:.0f}" for one in own)
        print(f"| {number} | {rate:.0f} | {rate / base / number:.2f} | {used} | {busiest:.0%} | {rounds} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--documents", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1, help="worker servers of the embed role")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--share", type=float)
    options = parser.parse_args(arguments)
    if options.worker:
        return worker(Role(options.worker[0]), options.worker[1])
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        compared(options, Path(folder))
    return 0


if __name__ == "__main__":
    from benchmarks import front_ends  # its classes have names that the handler's process can import

    sys.exit(front_ends.main())
