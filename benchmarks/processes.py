"""`serve --processes N`: documents a second by the number of gateways, and the memory of all of their processes.

    python -m benchmarks.processes --processes 1 2

For each number, a supervisor of its own, with the embedded Redis and an fsync on each write; one is a gateway without a
supervisor. They run at the same time and are measured in turn. Each gateway has workers of its own, which use the
processors and the GPU that the settings name (`--setting DEVICES=["cuda:0"]`), so clients, Redis, gateways and workers
compete for the processors: the time that each of them uses is printed, which says what limits.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.small_requests import BODIES, ROOT, TICKS, drive, request_of

sys.path.insert(0, str(ROOT / "tests/kits"))
from gateway_kit import DOCUMENT, Gateway, children, cpu_ticks, free_port

PROCESS = "service.processes.gateway_process"
KINDS = ("gateways", "workers", "Redis", "clients")
WARM_S = 2.0


class Served(Gateway):
    """`serve --processes N`; one is a gateway without a supervisor."""

    def __init__(self, data_dir: Path, processes: int, settings: dict[str, str]) -> None:
        self.number = processes
        self.admin_port = free_port()
        own = {"PROCESSES": str(processes), "ADMIN_PORT": str(self.admin_port)} | settings
        super().__init__(data_dir, {f"PRIVACY_GATEWAY_{name}": value for name, value in own.items()})

    @property
    def admin(self) -> Any:
        client = super().admin
        client.base_url = f"http://127.0.0.1:{self.admin_port}"
        return client

    def wait_ready(self) -> None:
        super().wait_ready()
        while not all(map(self.answers, range(self.number))):
            time.sleep(0.2)

    def answers(self, number: int) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.admin_port + number, timeout=15)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def processes(self) -> dict[str, list[int]]:
        """The process ids by what is measured."""
        found = defaultdict(list, {"gateways": [self.process.pid]})
        for pid, line in children(self.process.pid).items():
            kind = "gateways" if PROCESS in line else "Redis" if "redis-server" in line else "workers"
            found[kind].append(pid)
        return found


@dataclass(frozen=True)
class Round:
    """Documents a second, the median time of a request and processor time of each kind of process by request, in
    milliseconds."""

    rate: float
    p50: float
    used: dict[str, float]


def measured(gateway: Served, request: bytes, options: argparse.Namespace) -> Round:
    asyncio.run(drive(gateway.port, request, options.clients, WARM_S))
    processes = gateway.processes()
    before = {pid: cpu_ticks(pid) for own in processes.values() for pid in own}
    began, own = time.perf_counter(), time.process_time()
    times = asyncio.run(drive(gateway.port, request, options.clients, options.seconds))
    seconds = time.perf_counter() - began
    used = {
        kind: sum(cpu_ticks(pid) - before[pid] for pid in own) / TICKS * 1000 / len(times)
        for kind, own in processes.items()
    }
    used["clients"] = (time.process_time() - own) * 1000 / len(times)
    return Round(len(times) * options.documents / seconds, 1000 * statistics.median(times), used)


def memory_mib(pids: Sequence[int]) -> float:
    """What the processes have, where each page counts once for all that share it."""
    lines = "\n".join(Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def compared(options: argparse.Namespace, folder: Path) -> None:
    """All gateways run; they are measured in turn."""
    settings = dict(one.partition("=")[::2] for one in options.setting)
    rows: dict[int, list[Round]] = defaultdict(list)
    memory: dict[int, float] = {}
    with ExitStack() as stack:
        gateways: dict[Served, bytes] = {}
        for number in options.processes:
            gateway = Served(folder / str(number), number, settings)
            stack.callback(gateway.stop)
            body = BODIES[options.route](DOCUMENT)
            if "documents" in body:
                body["documents"] *= options.documents
            gateways[gateway] = request_of(options.route, body, gateway.tenant(epsilon=4_000_000))
        for _ in range(options.rounds):
            for gateway, request in gateways.items():
                rows[gateway.number].append(measured(gateway, request, options))
        for gateway in gateways:
            memory[gateway.number] = memory_mib([pid for own in gateway.processes().values() for pid in own])
    show(options, rows, memory)


def show(options: argparse.Namespace, rows: dict[int, list[Round]], memory: dict[int, float]) -> None:
    print(f"\n{options.route}, {options.documents} documents in a request, {options.clients} clients")
    print("| N | documents/s | ratio | p50 | " + ", CPU ms | ".join(KINDS) + ", CPU ms | memory, MiB | rounds |")
    print("| --- | --- | --- | --- |" + " --- |" * (len(KINDS) + 2))
    base = statistics.median(one.rate for one in rows[options.processes[0]])
    for number, own in rows.items():
        rate, p50 = statistics.median(one.rate for one in own), statistics.median(one.p50 for one in own)
        used = " | ".join(f"{statistics.median(one.used.get(kind, 0) for one in own):.2f}" for kind in KINDS)
        rounds = ", ".join(f"{one.rate:.0f}" for one in own)
        print(f"| {number} | {rate:.0f} | {rate / base:.2f} | {p50:.1f} | {used} | {memory[number]:.0f} | {rounds} |")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--route", default="/embed/sentdp", choices=list(BODIES))
    parser.add_argument("--documents", type=int, default=1, help="in each request")
    parser.add_argument("--setting", action="append", default=[], help="NAME=VALUE, of every gateway")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args(arguments)
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        compared(options, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
